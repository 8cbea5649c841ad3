"""The page of a new model, from a completed conversion job, or an uploaded ONNX file; and the form for a version with a
decoder of its own. Plain forms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urlencode

from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.conversion.access import conversion_of
from app.conversion.model import JobRecord, Status
from app.conversion.service.uploads import parts_of, split_model
from app.conversion.store import JobFilter
from app.inference.installed_decoders import list_installed_decoders
from app.inference.model_card import Format
from app.inference.prediction import MOST_DECODER_SOURCE, Decoder
from app.kit.clock import now
from app.kit.errors import BadInput, ModelmillError
from app.kit.web.auth import user_of
from app.kit.web.common_pages import see_other
from app.kit.web.forms import SentFile, SentForm, receive_form
from app.kit.web.http import checked, retry_after
from app.kit.web.idempotency import form_once
from app.kit.web.templates import render
from app.model_registry.access import models_of
from app.model_registry.job_models import not_completed
from app.model_registry.model import MAX_NAME, MAX_NOTE, Model, NewVersion, labels_of
from app.model_registry.pages.models import AREA, NamedForm
from app.model_registry.schemas import MAX_LABELS_TEXT, InstalledDecoder
from app.settings import settings_of

OFFERED_JOBS = 50
MAX_JOBS_READ = 2000
FIELDS_BYTES = 1 << 20
FROM_JOB, UPLOAD = "job", "upload"
EMPTY = {
    "way": FROM_JOB,
    "name": "",
    "new_version": "",
    "note": "",
    "job_id": "",
    "artifact": Format.NEF.value,
    "decoder": "auto",
    "labels": "",
}


class NewForm(BaseModel):
    way: str = FROM_JOB
    """Which of the two forms of the page was sent."""
    name: Annotated[str, Field(max_length=MAX_NAME)] = ""
    new_version: bool = False
    note: Annotated[str, Field(max_length=MAX_NOTE)] = ""
    job_id: Annotated[str, Field(max_length=64)] = ""
    artifact: Format = Format.NEF
    decoder: InstalledDecoder = Decoder.AUTO
    labels: Annotated[str, Field(max_length=MAX_LABELS_TEXT)] = ""


class DecoderForm(NamedForm):
    note: Annotated[str, Field(max_length=MAX_NOTE)] = ""


@dataclass(frozen=True)
class ModelDraft:
    values: Mapping[str, str]
    """As typed in the form that was sent."""
    problem: ModelmillError | None = None
    """Why it did not become a model."""

    def of(self, way: str) -> Mapping[str, str]:
        shared = {field: self.values[field] for field in ("name", "new_version")} if self.values["new_version"] else {}
        return self.values if self.values["way"] == way else {**EMPTY, **shared, "way": way}

    def problem_of(self, way: str) -> ModelmillError | None:
        return self.problem if self.values["way"] == way else None


def new(request: Request) -> Response:
    """Renders the page. ?job={id} chooses a job, ?way=upload puts the other form first, ?name=faces is for its next
    version."""
    params, user = request.query_params, user_of(request)
    way = UPLOAD if params.get("way") == UPLOAD else FROM_JOB
    values, problem = {**EMPTY, "way": way}, None
    if name := params.get("name", "")[:MAX_NAME]:
        values |= {"name": name, "new_version": "on"}
    if params.get("job"):
        record = conversion_of(request).jobs.get(params["job"], user)
        values |= {"job_id": record.job_id, "name": name or record.name.replace("/", "-"), "way": FROM_JOB}
        problem = None if record.status is Status.COMPLETED else not_completed(record)
    return _render_page(request, ModelDraft(values, problem))


async def set_decoder(request: Request) -> Response:
    """Adds a version of a model with the decoder that was sent."""
    limit = MOST_DECODER_SOURCE + FIELDS_BYTES
    async with receive_form(request, settings_of(request).work, max_bytes=limit) as sent:
        return await run_in_threadpool(_set_decoder, request, sent)


def _set_decoder(request: Request, sent: SentForm) -> Response:
    fields = checked(lambda: DecoderForm.model_validate({name: values[-1] for name, values in sent.fields.items()}))
    files = sent.files.get("decoder", [])
    if not files:
        raise BadInput("No file was chosen.", hint="Choose a Python file with a function decode.")
    source = b"".join(files[0].chunks()).decode("utf-8", "replace")
    model = models_of(request).set_decoder(user_of(request), fields.name, source, now=now(), note=fields.note.strip())
    return see_other("/ui/models/named?" + urlencode({"name": model.pin, "note": "added"}))


async def create(request: Request) -> Response:
    settings = settings_of(request)
    async with receive_form(request, settings.work, max_bytes=settings.max_model_bytes + FIELDS_BYTES) as sent:
        return await run_in_threadpool(_create, request, sent)


def _create(request: Request, sent: SentForm) -> Response:
    values = {**EMPTY, **{name: values[-1] for name, values in sent.fields.items() if name in EMPTY}}
    values["way"] = UPLOAD if values["way"] == UPLOAD else FROM_JOB
    try:
        fields = checked(lambda: NewForm.model_validate({**values, "new_version": bool(values["new_version"])}))
        model = _add_model(request, fields, sent.files.get("model", []))
    except ModelmillError as error:
        return _render_page(request, ModelDraft(values, error))
    shown = model.name if model.version == 1 else model.pin
    return see_other("/ui/models/named?" + urlencode({"name": shown, "note": "added"}))


def _add_model(request: Request, fields: NewForm, files: list[SentFile]) -> Model:
    models, user, versioning = models_of(request), user_of(request), NewVersion(fields.new_version, fields.note.strip())
    common: dict[str, Any] = {"decoder": fields.decoder, "labels": labels_of(fields.labels), "versioning": versioning}
    if fields.way == FROM_JOB:
        return models.add_from_job(user, fields.name, fields.job_id, fields.artifact, now=now(), **common)
    if not files:
        raise BadInput("No file was chosen.", hint="Choose an ONNX model.")
    model, beside = split_model(files)
    name = fields.name.strip() or model.name.removesuffix(".onnx")
    weights = parts_of(beside) if beside else None
    return models.add_upload(user, name, model.chunks(), now=now(), weights=weights, **common)


def _render_page(request: Request, draft: ModelDraft) -> Response:
    problem = draft.problem
    is_refusal = problem is not None and request.method == "POST"
    response = render(
        request,
        "models/new.html",
        problem.status if problem and is_refusal else 200,
        area=AREA,
        draft=draft,
        jobs=_list_jobs(request, draft.values["job_id"]),
        decoders=list_installed_decoders(),
        ways=_list_ways(draft),
        max_bytes=settings_of(request).max_model_bytes,
    )
    response.headers.update(retry_after(problem) if problem else {})
    return response


def _list_ways(draft: ModelDraft) -> list[str]:
    """Returns the forms, the one in use first."""
    return sorted((FROM_JOB, UPLOAD), key=lambda way: way != draft.values["way"])


def _list_jobs(request: Request, chosen: str) -> list[JobRecord]:
    """Returns the newest completed jobs and the chosen one."""
    jobs, user = conversion_of(request).jobs, user_of(request)
    completed = JobFilter(status=Status.COMPLETED.value)
    records, _ = jobs.page(completed, user, limit=OFFERED_JOBS, cursor=None, max_read=MAX_JOBS_READ)
    if chosen and chosen not in {record.job_id for record in records}:
        records += [record for record in jobs.several([chosen], user) if record.status is Status.COMPLETED]
    return records


ROUTES = [
    Route("/ui/models/new", new),
    Route("/ui/models/new", form_once(create), methods=["POST"]),
    Route("/ui/models/decoder", form_once(set_decoder), methods=["POST"]),
]
