"""The page of a new conversion: stores the files, shows their preview and the options, and submits the job."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from app.conversion import object_keys, schemas
from app.conversion.access import batches_of, conversion_of
from app.conversion.errors import KeyNotFound, TooManyJobs
from app.conversion.model import SNR_DB_MIN
from app.conversion.options import Chip, Options, ToolchainName
from app.conversion.pages import new_form, new_submission, new_view, samples, suggestions
from app.conversion.pages.form_problems import FormProblem, place_of, problem_of
from app.conversion.pages.new_form import Values
from app.conversion.pages.quality import saturation_columns
from app.conversion.pages.submission_summary import summary_of
from app.conversion.service.calibration_sets import calibration_sets
from app.conversion.service.previews import Previews
from app.conversion.service.submissions import Submission
from app.kit.errors import ModelmillError, NotFound
from app.kit.objects import ObjectMissing
from app.kit.web import charts
from app.kit.web.auth import user_of
from app.kit.web.forms import SentFile, SentForm, receive_form
from app.kit.web.http import retry_after
from app.kit.web.idempotency import form_once
from app.kit.web.public_address import find_reached_url
from app.kit.web.templates import TemplateContext, render
from app.settings import settings_of

SAMPLE_MODEL, SAMPLE_PICTURES = samples.ALL[0].model, samples.ALL[0].pictures
FORM_BYTES = 1 << 22
FILLED_IN = ("model_key", "model_name", "quant_key", "quant_name", "name")
"""Fields that a link may fill in; whether the uploads belong to the user is checked when they are read."""
FILLED_IN_MAX = 300
Errors = dict[str, FormProblem]


def previews_of(request: Request) -> Previews:
    return conversion_of(request).previews


async def new_job(request: Request) -> Response:
    """Renders the form: empty; with ?from={job} as that job was submitted; with keys for these uploads."""
    earlier = request.query_params.get("from", "")
    values, errors = await run_in_threadpool(_read_first_values, request, earlier)
    if not earlier:
        values |= {name: request.query_params.get(name, "")[:FILLED_IN_MAX] for name in FILLED_IN}
        values = await run_in_threadpool(_with_recognized, request, values)
    return await _render_page(request, values, errors)


def _read_first_values(request: Request, earlier: str) -> tuple[Values, Errors]:
    values = new_form.values_of(_choose_first_options(settings_of(request).toolchains))
    if not earlier:
        return values, {}
    gone = FormProblem("The inputs of this job are no longer stored.", hint="Send the model and the pictures again.")
    if not object_keys.is_uuid4(earlier):
        return values, {"form": gone}
    try:
        was = conversion_of(request).submissions.remembered(earlier, user_of(request))
    except ObjectMissing:
        return values, {"form": gone}
    values_then = new_form.values_of(was.options)
    values_then |= {
        "name": was.name,
        "tags": ", ".join(was.tags),
        "model_key": was.model_key,
        "quant_key": was.quant_key,
    }
    values_then |= {"model_name": object_keys.MODEL, "quant_name": object_keys.IMAGES, "from": earlier}
    values_then["pre_for"] = was.model_key
    return _with_shapes(request, values_then, was.options), {}


def _with_shapes(request: Request, values: Values, options: Options) -> Values:
    try:
        open_inputs = previews_of(request).model(values["model_key"], user_of(request)).open_inputs
    except KeyNotFound:
        return values
    return {**values, **new_form.shape_values(options.input_shapes, open_inputs)}


def _choose_first_options(toolchains: Sequence[ToolchainName]) -> Options:
    if ToolchainName.HOST in toolchains:
        return Options()
    return Options(toolchain=ToolchainName.KNERON, platform=Chip.KL720)


def _list_unserved(request: Request) -> list[ToolchainName]:
    estimates = conversion_of(request).estimates
    return [name for name in settings_of(request).toolchains if estimates.unserved(name.value)]


async def _render_page(request: Request, values: Values, errors: Errors, *, status: int = 422) -> Response:
    """Renders the form.

    Args:
        status: of the response, if there are errors.
    """
    view = await run_in_threadpool(_build_foot, request, values, errors)
    view |= {"has_sample": SAMPLE_MODEL.exists(), "has_cache": conversion_of(request).cache.is_on}
    return render(request, "conversion/new.html", status if errors else 200, area="new", **view)


async def _render_full(request: Request, values: Values, error: TooManyJobs) -> Response:
    """Renders the form as it was sent, with the message that no more jobs are accepted now."""
    response = await _render_page(request, values, {"form": problem_of(error)}, status=error.status)
    response.headers.update(retry_after(error))
    return response


async def create(request: Request) -> Response:
    """Submits the form. Errors are shown beside their fields, and uploaded files are kept."""
    values, errors, _ = await _receive_form(request)
    try:
        address = "" if errors else await run_in_threadpool(_submit, request, values, errors)
    except TooManyJobs as error:
        return await _render_full(request, values, error)
    if errors:
        return await _render_page(request, values, errors)
    return RedirectResponse(address, status_code=303)


async def _receive_form(request: Request) -> tuple[Values, Errors, SentForm]:
    """Returns the form after storing its files, and the errors of these."""
    settings, uploads, user = settings_of(request), conversion_of(request).uploads, user_of(request)
    max_bytes = settings.max_model_bytes + settings.max_images_bytes + FORM_BYTES
    async with receive_form(request, settings.work, max_bytes=max_bytes) as sent:
        values = _read_values(request, sent)
        errors = await run_in_threadpool(new_submission.store_files, uploads, user, sent, values)
        return await run_in_threadpool(_with_recognized, request, values), errors, sent


def _read_values(request: Request, sent: SentForm) -> Values:
    base = new_form.values_of(_choose_first_options(settings_of(request).toolchains))
    return new_form.settle(new_form.merge_values(base, sent.fields))


def _with_recognized(request: Request, values: Values) -> Values:
    return new_view.with_recognized(previews_of(request), values, user_of(request))


def _submit(request: Request, values: Values, errors: Errors) -> str:
    """Submits the job or the sweep and returns the URL of its page; empty if errors were added."""
    user = user_of(request)
    open_inputs = new_submission.check_inputs(previews_of(request), user, values, errors)
    options, wrong = new_form.options_of(values, open_inputs)
    errors |= wrong
    job = None if errors or options is None else new_submission.job_of(values, options, errors)
    if job is None:
        return ""
    try:
        return (
            _begin_sweep(request, job, values, errors) if new_submission.is_batch(values) else _begin_job(request, job)
        )
    except ModelmillError as error:
        if error.status >= 500 or isinstance(error, TooManyJobs):
            raise  # no change of the form can help
        errors[place_of(error)] = problem_of(error)
        return ""


def _begin_job(request: Request, job: schemas.NewJob) -> str:
    submission = Submission(
        model_key=job.model_key,
        quant_key=job.quant_key,
        owner=user_of(request),
        name=job.name,
        tags=job.tags,
        options=job.options,
        no_cache=job.no_cache,
    )
    return f"/ui/jobs/{conversion_of(request).submissions.submit(submission).job_id}"


def _begin_sweep(request: Request, job: schemas.NewJob, values: Values, errors: Errors) -> str:
    batch = new_submission.batch_of(previews_of(request), values, user_of(request), errors)
    if batch is None:
        return ""
    conversion_of(request).submissions.admission.check_served(job.options.toolchain)
    name = values["name"] or new_submission.name_of(values)
    sweep_id = batches_of(request).begin(
        user_of(request), batch.models, batch.variants, name=name, tags=job.tags, no_cache=job.no_cache
    )
    return f"/ui/sweeps/{sweep_id}"


async def apply(request: Request) -> Response:
    """Renders the form with the suggestion of one of its buttons filled in, for browsers without JavaScript."""
    values, errors, sent = await _receive_form(request)
    patch = sent.fields.get("apply", [""])[-1]
    return await _render_page(request, suggestions.patch_values(values, patch), errors)


async def foot_part(request: Request) -> Response:
    values = await _read_sent_values(request)
    view = await run_in_threadpool(_build_foot, request, values)
    return render(request, "conversion/_new_foot.html", **view)


def _build_foot(request: Request, values: Values, errors: Errors | None = None) -> TemplateContext:
    user, toolchains = user_of(request), settings_of(request).toolchains
    view = new_view.page_view(previews_of(request), values, errors or {}, user, toolchains, _list_unserved(request))
    foot = summary_of(conversion_of(request), user, view, find_reached_url(request))
    return {**view, "foot": foot, **_build_sets(request)}


def _build_sets(request: Request) -> TemplateContext:
    """Returns the pictures of earlier jobs, and the data of their saturation curves."""
    sets = calibration_sets(conversion_of(request).jobs, user_of(request))
    return {"sets": sets, "charts": charts, "saturation_columns": saturation_columns, "rule_db": SNR_DB_MIN}


async def model_part(request: Request) -> Response:
    values = await _read_sent_values(request)
    user = user_of(request)
    view = await run_in_threadpool(new_view.model_view, previews_of(request), values, {}, user)
    return render(request, "conversion/_model.html", **view)


async def pictures_part(request: Request) -> Response:
    values = await _read_sent_values(request)
    user = user_of(request)
    view = await run_in_threadpool(new_view.pictures_view, previews_of(request), values, {}, user)
    sets = await run_in_threadpool(_build_sets, request)
    return render(request, "conversion/_pictures.html", **view, **sets)


async def options_part(request: Request) -> Response:
    values = await _read_sent_values(request)
    _, errors = new_form.options_of(values)
    errors.pop("platform", None)  # it is required at submission, not while options are being chosen
    unserved = await run_in_threadpool(_list_unserved, request)
    view = new_view.options_view(values, errors, settings_of(request).toolchains, unserved)
    return render(request, "conversion/_options.html", **view)


async def _read_sent_values(request: Request) -> Values:
    async with receive_form(request, settings_of(request).work, max_bytes=FORM_BYTES) as sent:
        return await run_in_threadpool(_with_recognized, request, _read_values(request, sent))


def thumbnail(request: Request) -> Response:
    """Sends a small JPEG of a reference picture; 404 for another user's input."""
    kind, source_id = request.path_params["kind"], request.path_params["source_id"]
    make = {"upload": object_keys.upload, "job": object_keys.input_}.get(kind)
    try:
        if make is None or not object_keys.is_uuid4(source_id):
            raise NotFound("There is no such picture.")
        data = previews_of(request).thumbnail(
            make(source_id, object_keys.IMAGES), request.path_params["file"], user_of(request)
        )
    except (KeyNotFound, ObjectMissing) as error:
        raise NotFound("There is no such picture.") from error
    return Response(data, media_type="image/jpeg", headers={"Cache-Control": "private, max-age=86400"})


async def convert_sample(request: Request) -> Response:
    """Submits a bundled sample, so that newcomers see a conversion with one click."""
    try:
        job_id = await run_in_threadpool(_submit_sample, request)
    except TooManyJobs as error:
        return await _render_full(
            request, new_form.values_of(_choose_first_options(settings_of(request).toolchains)), error
        )
    return RedirectResponse(f"/ui/jobs/{job_id}", status_code=303)


def _submit_sample(request: Request) -> str:
    sample = samples.sample_of(request.path_params.get("name", samples.ALL[0].name))
    conversion, user = conversion_of(request), user_of(request)
    keys = {
        part: new_submission.store_upload(conversion.uploads, user, part, [SentFile(path.name, path)])[0]
        for part, path in (("model", sample.model), ("images", sample.pictures))
    }
    record = conversion.submissions.submit(
        Submission(
            model_key=keys["model"],
            quant_key=keys["images"],
            owner=user,
            name=sample.name,
            tags=("sample",),
            options=_choose_first_options(settings_of(request).toolchains),
        )
    )
    return record.job_id


ROUTES = [
    Route("/ui/jobs/new", new_job, methods=["GET"]),
    Route("/ui/jobs/new", form_once(create), methods=["POST"]),
    Route("/ui/jobs/new/apply", apply, methods=["POST"]),
    Route("/ui/jobs/new/foot", foot_part, methods=["POST"]),
    Route("/ui/jobs/new/model", model_part, methods=["POST"]),
    Route("/ui/jobs/new/images", pictures_part, methods=["POST"]),
    Route("/ui/jobs/new/options", options_part, methods=["POST"]),
    Route("/ui/jobs/new/sample", form_once(convert_sample), methods=["POST"]),
    Route("/ui/jobs/new/sample/{name}", form_once(convert_sample), methods=["POST"]),
    Route("/ui/inputs/{kind}/{source_id}/thumbs/{file}", thumbnail, methods=["GET"]),
]
