"""What the templates of a new conversion show, collected from the fields and the previews of the inputs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from app.conversion import object_keys, presets
from app.conversion.errors import KeyNotFound
from app.conversion.intake import calibration_checks
from app.conversion.options import Chip, Preprocess, ToolchainName
from app.conversion.pages import new_form, new_submission, suggestions
from app.conversion.pages.form_problems import FormProblem, problem_of
from app.conversion.pages.new_form import Values
from app.conversion.pages.option_fields import list_advanced_fields
from app.conversion.service.previews import ModelPreview, PicturesPreview, Previews
from app.conversion.toolchains.base import GOOD_SAMPLES
from app.conversion.toolchains.kneron.operators import source
from app.kit.errors import ModelmillError
from app.kit.web.templates import TemplateContext

NAMES_SHOWN = 6
GUESSED_BATCH = "1"
Errors = Mapping[str, FormProblem]


@dataclass(frozen=True)
class ChosenInput:
    """An input that exists, from an upload or from an earlier job."""

    key: str
    name: str
    """The file's name; empty if unknown."""
    size_bytes: int
    job_id: str
    link: str
    """URL prefix of its thumbnails; a file name follows."""


@dataclass(frozen=True)
class Formula:
    """How pixels are converted to numbers, for readers."""

    color: str
    expression: str
    low: str
    """Lowest result for a pixel of 0 or 255."""
    high: str
    """Highest result for a pixel of 0 or 255."""


def with_recognized(previews: Previews, values: Values, user: str) -> Values:
    """Returns the fields with the preprocessing recognized for a model that has just been chosen."""
    if not suggestions.has_new_model(values):
        return values
    known = [_recognize(previews, values[field], user) for field in ("model_key", "pre_for")]
    return suggestions.select_preprocess(values, *known)


def model_view(previews: Previews, values: Values, errors: Errors, user: str) -> TemplateContext:
    """Returns what the part of the form about the model shows.

    Args:
        values: of the form, by field.
        errors: by field.
    """
    chosen, preview, problem = _preview_model(previews, values, user)
    toolchain, chip = new_form.target_of(values)
    model_problem = preview.problem(toolchain) if preview else None
    facts = preview.facts if preview else None
    operators = list(facts["operators"].items()) if facts else []
    return {
        "values": _with_batch(values, preview),
        "errors": errors,
        "model": chosen,
        "facts": facts,
        "model_problem": errors.get("model") or problem or (problem_of(model_problem) if model_problem else None),
        "open_inputs": preview.open_inputs if preview else (),
        "missing": preview.missing_on(chip) if preview else [],
        "missing_source": source(),
        "operators": operators,
        "compact": compact,
        "recognized": _suggest(preview, values),
        "further": new_submission.further_models(previews, values, user),
    }


def pictures_view(previews: Previews, values: Values, errors: Errors, user: str) -> TemplateContext:
    """Returns what the part of the form about the reference samples shows.

    Args:
        values: of the form, by field.
        errors: by field.
    """
    _, model, _ = _preview_model(previews, values, user)
    open_inputs = model.open_inputs if model else ()
    chosen, problem = _choose_input(previews, values["quant_key"], values["quant_name"], user)
    preview: PicturesPreview | None = None
    if chosen:
        preview = previews.pictures(chosen.key, user, model, new_form.shapes_of(values, open_inputs))
    options, _ = new_form.options_of(_complete_for_checks(values), open_inputs)
    findings = previews.findings(preview, model, options) if preview and options and preview.measured.count else []
    failure = problem_of(preview.failure) if preview and preview.failure else None
    known = model.recognition if model else None
    return {
        "values": values,
        "errors": errors,
        "images": chosen,
        "look": preview,
        "findings": findings,
        "suggestions": {finding.code: suggestions.of_finding(finding, known, values) for finding in findings},
        "seen": _find_input_size(model, values),
        "pad": _pad_value(values),
        "verdict": "blocks" if failure else calibration_checks.verdict(findings),
        "good": GOOD_SAMPLES,
        "names_shown": NAMES_SHOWN,
        "pictures_problem": errors.get("images") or problem or failure,
    }


def _recognize(previews: Previews, key: str, user: str) -> suggestions.Recognized:
    try:
        return previews.model(key, user).recognition if key else None
    except KeyNotFound:
        return None


def _suggest(preview: ModelPreview | None, values: Values) -> suggestions.RecognizedModel | None:
    return suggestions.describe_recognition(preview.recognition, values) if preview else None


def _pad_value(values: Values) -> int:
    preprocess = new_form.preprocess_of(values)
    return preprocess.pad_value if preprocess else 0


def _find_input_size(model: ModelPreview | None, values: Values) -> tuple[int, int] | None:
    """Returns width and height of the input that takes pictures; None while unknown."""
    if model is None or model.facts is None:
        return None
    shapes = new_form.shapes_of(values, model.open_inputs)
    return calibration_checks.target_of(
        [shapes.get(entry["name"], entry["shape"]) for entry in model.facts["inputs"]], model.expectation
    ).size


def options_view(
    values: Values, errors: Errors, toolchains: tuple[ToolchainName, ...], unserved: Collection[ToolchainName] = ()
) -> TemplateContext:
    """Returns the options of the form that apply to the chosen toolchain and chip.

    Args:
        values: of the form, by field.
        errors: by field.
        toolchains: those of this installation.
        unserved: those of them that no worker serves now.
    """
    toolchain, chip = new_form.target_of(values)
    preprocess = new_form.preprocess_of(values)
    fields = list_advanced_fields(values)
    names = {field.name for field in fields}
    has_pre_error = any(name.startswith("preprocess.") for name in errors)
    return {
        "values": values,
        "errors": errors,
        "toolchains": [name.value for name in toolchains],
        "unserved": [name.value for name in unserved],
        "toolchain": toolchain.value,
        "chips": [f.value for f in Chip],
        "chip": chip.value if chip else "",
        "presets": list(presets.quantization_presets(toolchain, chip)),
        "pre_presets": list(presets.PREPROCESS),
        "formula": formula(preprocess) if preprocess else None,
        "fields": fields,
        "is_advanced_open": values["advanced"] == "1" or any(name in names for name in errors),
        "is_pre_open": values["pre_open"] == "1" or values["pre"] == presets.CUSTOM or has_pre_error,
    }


def page_view(
    previews: Previews,
    values: Values,
    errors: Errors,
    user: str,
    toolchains: tuple[ToolchainName, ...],
    unserved: Collection[ToolchainName] = (),
) -> TemplateContext:
    """Returns what the whole form shows.

    Args:
        values: of the form, by field.
        errors: by field.
        toolchains: those of this installation.
        unserved: those of them that no worker serves now.
    """
    parts = (model_view(previews, values, errors, user), pictures_view(previews, values, errors, user))
    return {**parts[1], **parts[0], **options_view(values, errors, toolchains, unserved), "values": parts[0]["values"]}


def formula(options: Preprocess) -> Formula:
    """Returns how the preprocessing converts a pixel, with the range of its results."""
    channels = max(len(options.mean), len(options.std))
    ends = [
        (pixel * options.scale - options.mean[c % len(options.mean)]) / options.std[c % len(options.std)]
        for pixel in (0, 255)
        for c in range(channels)
    ]
    scaled = _format_scale(options.scale)
    if any(options.mean):
        mean = f"{abs(options.mean[0]):g}" if len(options.mean) == 1 else "mean"
        sign = "+" if len(options.mean) == 1 and options.mean[0] < 0 else "−"
        scaled = f"{scaled} {sign} {mean}"
    if set(options.std) != {1.0}:
        std = f"{options.std[0]:g}" if len(options.std) == 1 else "std"
        scaled = f"({scaled}) / {std}" if " " in scaled else f"{scaled} / {std}"
    return Formula(options.color, f"x = {scaled}", _shorten(min(ends)), _shorten(max(ends)))


def compact(value: float) -> str:
    """Shortens a number: 3504872 becomes 3.50 M."""
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.0f}"


def _preview_model(
    previews: Previews, values: Values, user: str
) -> tuple[ChosenInput | None, ModelPreview | None, FormProblem | None]:
    chosen, problem = _choose_input(previews, values["model_key"], values["model_name"], user)
    return chosen, previews.model(chosen.key, user) if chosen else None, problem


def _choose_input(previews: Previews, key: str, name: str, user: str) -> tuple[ChosenInput | None, FormProblem | None]:
    if not key:
        return None, None
    try:
        size = previews.size_bytes(key, user)
    except ModelmillError as error:
        return None, problem_of(error)
    kind, source_id = object_keys.source_of(key) or ("", "")
    job_id = source_id if kind == "job" else ""
    return ChosenInput(key, name, size, job_id, f"/ui/inputs/{kind}/{source_id}/thumbs/"), None


def _complete_for_checks(values: Values) -> Values:
    """Makes the values valid for the checks of pictures, which need only the preprocessing: a missing chip must not
    prevent them."""
    return {**values, "toolchain": ToolchainName.HOST.value, "platform": ""}


def _with_batch(values: Values, preview: ModelPreview | None) -> Values:
    """Offers 1 for axis 0, which is nearly always the batch. Other sizes are not guessed."""
    fields = dict(values)
    for index, entry in enumerate(preview.open_inputs if preview else ()):
        is_open = bool(entry["shape"]) and not isinstance(entry["shape"][0], int)
        if is_open and new_form.is_rank_known(entry["shape"]):
            fields.setdefault(f"shape.{index}.0", GUESSED_BATCH)
    return fields


def _format_scale(scale: float) -> str:
    text = new_form.as_text(scale)
    if text == "1":
        return "pixel"
    return f"pixel / {text[2:]}" if text.startswith("1/") else f"pixel × {text}"


def _shorten(value: float) -> str:
    return f"{value:.3g}" if abs(value) >= 1e-6 else "0"
