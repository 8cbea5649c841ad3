"""What the form of a new conversion creates: a job, or a sweep over several models or presets. Stores its files and
collects what prevents the submission."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from pydantic import ValidationError

from app.conversion.errors import KeyNotFound
from app.conversion.object_keys import MODEL_ENDINGS
from app.conversion.options import Options, ToolchainName
from app.conversion.pages import new_form
from app.conversion.pages.form_problems import FormProblem, field_problem, problem_of
from app.conversion.pages.new_form import Values
from app.conversion.pages.suggestions import Suggestion
from app.conversion.schemas import NewJob
from app.conversion.service.batches import BatchModel, Variant
from app.conversion.service.previews import ModelPreview, Previews
from app.conversion.service.uploads import Uploads, parts_of, split_model
from app.inference.preprocess_options import read_preprocess
from app.kit.errors import ModelmillError
from app.kit.web.forms import SentFile, SentForm

NAME_MAX = 80
MODELS_MAX = 50
REPORT_FOLDER = "report"
"""Folder of the zip with the pictures to report on; static/upload.js puts them there, too."""
NO_PICTURES_BESIDE = FormProblem(
    "Report pictures go into one zip with the reference pictures: choose both as files, not as a zip."
)


def store_files(uploads: Uploads, user: str, sent: SentForm, values: Values) -> dict[str, FormProblem]:
    """Stores the files that were sent and enters their keys in the values.

    Args:
        values: of the form, by field; those of the files are set.

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
        first, *further = group_models(files) if part == "model" else [_with(files, reporting)]
        try:
            values[key_field], values[name_field] = store_upload(uploads, user, part, first)
            if reporting:
                values["quantization.report_images"] = REPORT_FOLDER
            if part == "model":
                keys = dict(store_upload(uploads, user, part, each) for each in further)
                values["more_models"] = further_lines(keys)
        except ModelmillError as error:
            errors[part] = problem_of(error)
    return errors


def store_upload(uploads: Uploads, user: str, part: str, files: Sequence[SentFile]) -> tuple[str, str]:
    """Stores one upload; on an error nothing is kept.

    Args:
        user: the owner of the upload.
        part: `model` or `images`.
        files: the files that were sent, in order.

    Returns:
        Key and name of the upload.

    Raises:
        ModelmillError: What `Uploads` raises.
    """
    with uploads.new(user) as upload_id:
        if part == "model":
            return _store_model(uploads, upload_id, files)
        return uploads.store_pictures(upload_id, parts_of(files)).key, files[0].name if len(files) == 1 else ""


def _store_model(uploads: Uploads, upload_id: str, files: Sequence[SentFile]) -> tuple[str, str]:
    """Stores a model and returns its key and name.

    Args:
        files: the model and the files with its weights, or a zip of them.
    """
    model, beside = split_model(files)
    key = uploads.store_model(upload_id, model.chunks(), model.name).key
    if beside:
        uploads.store_weights(upload_id, parts_of(beside))
    uploads.merge(upload_id)
    return key, model.name


def _can_be_packed(files: Sequence[SentFile]) -> bool:
    return not any(file.name.lower().endswith(".zip") for file in files)


def _with(files: Sequence[SentFile], reporting: Sequence[SentFile]) -> list[SentFile]:
    return [*files, *(SentFile(f"{REPORT_FOLDER}/{file.name}", file.path) for file in reporting)]


def check_inputs(previews: Previews, user: str, values: Values, errors: dict[str, FormProblem]) -> new_form.OpenInputs:
    """Checks that both inputs exist.

    Args:
        previews: of the uploads.
        user: the owner of the inputs.
        values: of the form, by field; the key of an input that is gone is emptied.
        errors: by field; problems are added.

    Returns:
        The inputs of the model whose shape has to be given.
    """
    missing = (("model_key", "model", "Choose a model."), ("quant_key", "images", "Choose reference pictures."))
    for field, place, text in missing:
        if not values[field]:
            errors[place] = FormProblem(text)
            continue
        try:
            previews.size_bytes(values[field], user)
        except KeyNotFound as error:
            errors[place] = problem_of(error)
            values[field] = ""
    return previews.model(values["model_key"], user).open_inputs if values["model_key"] else ()


def job_of(values: Values, options: Options, errors: dict[str, FormProblem]) -> NewJob | None:
    """Returns the job that the form describes; None after adding its problems to `errors`, by field."""
    try:
        return NewJob(
            model_key=values["model_key"],
            quant_key=values["quant_key"],
            name=values["name"] or PurePath(values["model_name"]).stem,
            tags=new_form.tags_of(values),
            options=options,
            no_cache=values["no_cache"] == "1",
        )
    except ValidationError as error:
        for problem in error.errors(include_url=False):
            place = str(problem["loc"][0])
            errors.setdefault(place, field_problem(problem["type"], problem["msg"], problem.get("ctx", {})))
        return None


@dataclass(frozen=True)
class FurtherModel:
    """A model in addition to the first, as the form shows it."""

    key: str
    name: str
    title: str
    """Name of its family; empty if unknown."""
    summary: str
    """Its own preprocessing, if each model has its own; empty if that of the form applies."""
    problem: FormProblem | None
    removal: Suggestion


@dataclass(frozen=True)
class Batch:
    """The conversions that a form creates."""

    models: Sequence[BatchModel]
    variants: Sequence[Variant]


def is_batch(values: Values) -> bool:
    """Returns whether the form creates more than one conversion."""
    return bool(further_keys(values)) or len(new_form.variants_of(values)) > 1


def further_keys(values: Mapping[str, str]) -> dict[str, str]:
    """Returns the names of the additional models by key; the field has a line for each, with a tab between key and
    name."""
    lines = [line.partition("\t") for line in values["more_models"].splitlines()[:MODELS_MAX]]
    return {key.strip(): name.strip() for key, _, name in lines if key.strip()}


def further_lines(names: Mapping[str, str]) -> str:
    return "\n".join(f"{key}\t{name}" for key, name in names.items())


def group_models(files: Sequence[SentFile]) -> list[list[SentFile]]:
    """Groups the files by model: weights whose name begins like a model's belong to it, others to the first model."""
    models = [[file] for file in files if file.name.lower().endswith((*MODEL_ENDINGS, ".zip"))]
    if len(models) < 2:
        return [list(files)]
    for file in files:
        if not any(file is model[0] for model in models):
            stems = (model for model in models if file.name.startswith(PurePath(model[0].name).stem))
            next(stems, models[0]).append(file)
    return models


def name_of(values: Values) -> str:
    """Returns a name for a batch without one: its first model, and the number of others."""
    further = len(further_keys(values))
    return PurePath(values["model_name"]).stem + (f" + {further}" if further else "")


def further_models(previews: Previews, values: Values, user: str) -> list[FurtherModel]:
    """Returns the models in addition to the first, with what was recognized of them."""
    toolchain, _ = new_form.target_of(values)
    names = further_keys(values)
    shown = []
    for key, name in names.items():
        preview, problem = _preview_model(previews, key, user, toolchain)
        known = preview.recognition if preview else None
        summary = known["summary"] if known and _has_own(values, known) else ""
        rest = further_lines({other: names[other] for other in names if other != key})
        removal = Suggestion("Remove", {"more_models": rest})
        shown.append(FurtherModel(key, name, known["title"] if known else "", summary, problem, removal))
    return shown


def batch_of(previews: Previews, values: Values, user: str, errors: dict[str, FormProblem]) -> Batch | None:
    """Returns what is to be converted; None if there are problems.

    Args:
        values: of the form, by field.
        errors: by field; problems are added.
    """
    toolchain, _ = new_form.target_of(values)
    group = "quantization" if toolchain is ToolchainName.HOST else "kneron"
    names = {values["model_key"]: values["model_name"], **further_keys(values)}
    models: list[BatchModel] = []
    variants: list[Variant] = []
    for place, (key, name) in enumerate(names.items(), 1):
        options = _build_options_by_preset(previews, values, user, key, name, errors)
        if errors:
            return None
        first = next(iter(options.values())).model_dump(mode="json", exclude_defaults=True)
        label = PurePath(name).stem or values["name"].strip() or f"model {place}"
        models.append(BatchModel(label[:NAME_MAX], key, values["quant_key"], first))
        variants = [
            Variant(preset, {group: chosen.model_dump(mode="json")[group]}) for preset, chosen in options.items()
        ]
    return Batch(models, variants)


def _build_options_by_preset(
    previews: Previews, values: Values, user: str, key: str, name: str, errors: dict[str, FormProblem]
) -> dict[str, Options]:
    """Returns the options of one model, by preset.

    Args:
        errors: by field; problems are added.
    """
    toolchain, _ = new_form.target_of(values)
    preview, problem = _preview_model(previews, key, user, toolchain)
    if preview is None or problem:
        reason = f"{name}: {problem.english or problem.text}" if problem else ""
        errors.setdefault("model", FormProblem("%(name)s cannot be converted.", reason, detail={"name": name}))
        return {}
    given = new_form.shapes_of(values, preview.open_inputs)
    if any(entry["name"] not in given for entry in preview.open_inputs):
        text = "The sizes given here do not settle all axes of %(name)s."
        errors.setdefault("shape", FormProblem(text, text % {"name": name}, detail={"name": name}))
    by_preset = {}
    for preset, variant in new_form.variants_of(values).items():
        options, wrong = new_form.options_of(variant, preview.open_inputs)
        errors |= wrong
        if options is not None:
            by_preset[preset] = _with_own(options, values, preview)
    return by_preset


def _with_own(options: Options, values: Values, preview: ModelPreview) -> Options:
    """With several models, uses the preprocessing recognized for each, unless the form's shall apply to all."""
    known = preview.recognition
    if not known or not further_keys(values) or not _has_own(values, known):
        return options
    return options.model_copy(update={"preprocess": read_preprocess(known["preprocess"])})


def _has_own(values: Mapping[str, str], recognition: Mapping[str, Any]) -> bool:
    return values["each_pre"] != "0" and bool(recognition["is_sure"])


def _preview_model(
    previews: Previews, key: str, user: str, toolchain: ToolchainName
) -> tuple[ModelPreview | None, FormProblem | None]:
    try:
        preview = previews.model(key, user)
    except ModelmillError as error:
        return None, problem_of(error)
    problem = preview.problem(toolchain)
    return preview, problem_of(problem) if problem else None
