"""What the templates of a new conversion show, gathered from the fields and the looks at the inputs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from app.conversion import object_keys, presets
from app.conversion.intake import calibration_checks
from app.conversion.intake.calibration_checks import GOOD
from app.conversion.options import Chip, Preprocess, ToolchainName
from app.conversion.pages import new_form
from app.conversion.pages.new_fields import advanced_fields
from app.conversion.pages.new_form import Values
from app.conversion.pages.new_texts import Problem, problem_of
from app.conversion.service.previews import ImagesPreview, ModelPreview, Previews
from app.conversion.toolchains.kneron.operators import source
from app.kit.errors import ModelmillError

OPERATORS_SHOWN = 12
NAMES_SHOWN = 6
GUESSED_BATCH = "1"
Errors = Mapping[str, Problem]


@dataclass(frozen=True)
class Chosen:
    """An input that is there: from an upload or from an earlier job. name: as its owner called it, perhaps ""."""

    key: str
    name: str
    size_bytes: int
    job_id: str
    link: str
    """Where its thumbnails are: this and a file name."""


@dataclass(frozen=True)
class Formula:
    """How a pixel becomes a number, for people. low, high: of what comes out."""

    color: str
    expression: str
    low: str
    high: str


def model_view(looks: Previews, values: Values, errors: Errors, user: str) -> dict[str, Any]:
    chosen, look, problem = _model(looks, values, user)
    toolchain, chip = new_form.target_of(values)
    found = look.problem(toolchain) if look else None
    facts = look.facts if look else None
    operators = list(facts["operators"].items()) if facts else []
    return {
        "values": _with_batch(values, look),
        "errors": errors,
        "model": chosen,
        "facts": facts,
        "model_problem": errors.get("model") or problem or (problem_of(found) if found else None),
        "open_inputs": look.open_inputs if look else (),
        "missing": look.missing_on(chip) if look else [],
        "missing_source": source(),
        "operators": operators[:OPERATORS_SHOWN],
        "more_operators": operators[OPERATORS_SHOWN:],
        "compact": compact,
    }


def images_view(looks: Previews, values: Values, errors: Errors, user: str) -> dict[str, Any]:
    _, model, _ = _model(looks, values, user)
    open_inputs = model.open_inputs if model else ()
    chosen, problem = _chosen(looks, values["quant_key"], values["quant_name"], user)
    look: ImagesPreview | None = None
    if chosen:
        look = looks.images(chosen.key, user, model, new_form.shapes_of(values, open_inputs))
    options, _ = new_form.options_of(_for_doctor(values), open_inputs)
    findings = looks.findings(look, model, options) if look and options and look.measured.count else []
    failure = problem_of(look.failure) if look and look.failure else None
    return {
        "values": values,
        "errors": errors,
        "images": chosen,
        "look": look,
        "findings": findings,
        "verdict": "blocks" if failure else calibration_checks.verdict(findings),
        "good": GOOD,
        "names_shown": NAMES_SHOWN,
        "images_problem": errors.get("images") or problem or failure,
    }


def options_view(
    values: Values, errors: Errors, toolchains: tuple[ToolchainName, ...], unserved: Collection[ToolchainName] = ()
) -> dict[str, Any]:
    """unserved: those of the toolchains that no worker has now."""
    toolchain, chip = new_form.target_of(values)
    preprocess = new_form.preprocess_of(values)
    fields = advanced_fields(values)
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
    looks: Previews,
    values: Values,
    errors: Errors,
    user: str,
    toolchains: tuple[ToolchainName, ...],
    unserved: Collection[ToolchainName] = (),
) -> dict[str, Any]:
    parts = (model_view(looks, values, errors, user), images_view(looks, values, errors, user))
    return {**parts[1], **parts[0], **options_view(values, errors, toolchains, unserved), "values": parts[0]["values"]}


def formula(options: Preprocess) -> Formula:
    channels = max(len(options.mean), len(options.std))
    ends = [
        (pixel * options.scale - options.mean[c % len(options.mean)]) / options.std[c % len(options.std)]
        for pixel in (0, 255)
        for c in range(channels)
    ]
    scaled = _scaled(options.scale)
    if any(options.mean):
        mean = f"{abs(options.mean[0]):g}" if len(options.mean) == 1 else "mean"
        sign = "+" if len(options.mean) == 1 and options.mean[0] < 0 else "−"
        scaled = f"{scaled} {sign} {mean}"
    if set(options.std) != {1.0}:
        std = f"{options.std[0]:g}" if len(options.std) == 1 else "std"
        scaled = f"({scaled}) / {std}" if " " in scaled else f"{scaled} / {std}"
    return Formula(options.color, f"x = {scaled}", _short(min(ends)), _short(max(ends)))


def compact(value: float) -> str:
    """3504872 → 3.50 M."""
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.0f}"


def _model(looks: Previews, values: Values, user: str) -> tuple[Chosen | None, ModelPreview | None, Problem | None]:
    chosen, problem = _chosen(looks, values["model_key"], values["model_name"], user)
    return chosen, looks.model(chosen.key, user) if chosen else None, problem


def _chosen(looks: Previews, key: str, name: str, user: str) -> tuple[Chosen | None, Problem | None]:
    if not key:
        return None, None
    try:
        size = looks.size_bytes(key, user)
    except ModelmillError as error:
        return None, problem_of(error)
    kind, source_id = object_keys.source_of(key) or ("", "")
    job_id = source_id if kind == "job" else ""
    return Chosen(key, name, size, job_id, f"/ui/inputs/{kind}/{source_id}/thumbs/"), None


def _for_doctor(values: Values) -> Values:
    """The doctor judges pictures, for which only the preprocessing counts; a missing chip must not silence it."""
    return {**values, "toolchain": ToolchainName.HOST.value, "platform": ""}


def _with_batch(values: Values, look: ModelPreview | None) -> Values:
    """Axis 0 is nearly always the batch: 1 is offered for it. Other sizes are not guessed."""
    found = dict(values)
    for index, entry in enumerate(look.open_inputs if look else ()):
        is_open = bool(entry["shape"]) and not isinstance(entry["shape"][0], int)
        if is_open and new_form.is_rank_known(entry["shape"]):
            found.setdefault(f"shape.{index}.0", GUESSED_BATCH)
    return found


def _scaled(scale: float) -> str:
    text = new_form.as_text(scale)
    if text == "1":
        return "pixel"
    return f"pixel / {text[2:]}" if text.startswith("1/") else f"pixel × {text}"


def _short(value: float) -> str:
    return f"{value:.3g}" if abs(value) >= 1e-6 else "0"
