"""The files of the form of a new conversion: brought into the store, where the fields name them by their keys."""

from __future__ import annotations

from collections.abc import Sequence

from app.conversion.pages import new_submission
from app.conversion.pages.new_form import FormProblem, Values, problem_of
from app.conversion.service.uploads import Uploads, parts_of, split_model
from app.kit.errors import ModelmillError
from app.kit.web.forms import SentFile, SentForm

REPORT_FOLDER = "report"
"""Where pictures to report on lie in the zip; static/upload.js puts them there, too."""
NO_PICTURES_BESIDE = FormProblem(
    "Pictures to report on go into one zip with the reference pictures: choose both as files, not as a zip."
)


def store_files(uploads: Uploads, user: str, sent: SentForm, values: Values) -> dict[str, FormProblem]:
    """Bring sent files into the store and note their keys among the values.

    Args:
        values: of the form, by field; those about files are set.

    Returns:
        Problems by part of the form.
    """
    errors: dict[str, FormProblem] = {}
    for part, key_field, name_field in (("model", "model_key", "model_name"), ("images", "quant_key", "quant_name")):
        files = sent.files.get(part, [])
        reporting = sent.files.get("report", []) if part == "images" else []
        if reporting and not (files and _can_be_packed([*files, *reporting])):
            errors[part] = NO_PICTURES_BESIDE
            continue
        if not files:
            continue
        first, *further = new_submission.grouped_models(files) if part == "model" else [_with(files, reporting)]
        try:
            values[key_field], values[name_field] = stored(uploads, user, part, first)
            if reporting:
                values["quantization.report_images"] = REPORT_FOLDER
            if part == "model":
                keys = dict(stored(uploads, user, part, each) for each in further)
                values["more_models"] = new_submission.further_lines(keys)
        except ModelmillError as error:
            errors[part] = problem_of(error)
    return errors


def stored(uploads: Uploads, user: str, part: str, files: Sequence[SentFile]) -> tuple[str, str]:
    """Key and name of what was sent. Raises what Uploads raises; nothing is kept then.

    Args:
        user: whose upload it is.
        part: `model` or `images`.
        files: what was sent, in its order.
    """
    upload_id = uploads.begin(user)
    try:
        if part == "model":
            return _model(uploads, upload_id, files)
        return uploads.store_images(upload_id, parts_of(files)).key, files[0].name if len(files) == 1 else ""
    except BaseException:
        uploads.discard(upload_id)
        raise


def _model(uploads: Uploads, upload_id: str, files: Sequence[SentFile]) -> tuple[str, str]:
    """Store a model and name it.

    Args:
        files: The model and the files that its weights lie in; or a zip of them.
    """
    model, beside = split_model(files)
    key = uploads.store_model(upload_id, model.chunks()).key
    if beside:
        uploads.store_weights(upload_id, parts_of(beside))
    uploads.merge(upload_id)
    return key, model.name


def _can_be_packed(files: Sequence[SentFile]) -> bool:
    return not any(file.name.lower().endswith(".zip") for file in files)


def _with(files: Sequence[SentFile], reporting: Sequence[SentFile]) -> list[SentFile]:
    return [*files, *(SentFile(f"{REPORT_FOLDER}/{file.name}", file.path) for file in reporting)]
