"""What the templates of a new conversion show, collected from the fields and the previews of the inputs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

from app.conversion import object_keys, presets
from app.conversion.intake import calibration_checks
from app.conversion.options import NO_GOAL, Chip, Options, Preprocess, ToolchainName
from app.conversion.pages import new_form, new_submission, suggestions
from app.conversion.pages.new_form import FormProblem, Values, problem_of, target_of
from app.conversion.service.previews import ImagesPreview, ModelPreview, Previews
from app.conversion.toolchains.base import GOOD_SAMPLES
from app.conversion.toolchains.kneron.operators import source
from app.kit.errors import ModelmillError

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


def model_view(previews: Previews, values: Values, errors: Errors, user: str) -> dict[str, Any]:
    """Returns what the part of the form about the model shows.

    Args:
        values: of the form, by field.
        errors: by field.
    """
    chosen, preview, problem = _model(previews, values, user)
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
        "recognized": _recognized(preview, values),
        "further": new_submission.further_models(previews, values, user),
    }


def images_view(previews: Previews, values: Values, errors: Errors, user: str) -> dict[str, Any]:
    """Returns what the part of the form about the reference samples shows.

    Args:
        values: of the form, by field.
        errors: by field.
    """
    _, model, _ = _model(previews, values, user)
    open_inputs = model.open_inputs if model else ()
    chosen, problem = _chosen(previews, values["quant_key"], values["quant_name"], user)
    preview: ImagesPreview | None = None
    if chosen:
        preview = previews.images(chosen.key, user, model, new_form.shapes_of(values, open_inputs))
    options, _ = new_form.options_of(_for_checks(values), open_inputs)
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
        "seen": _seen_size(model, values),
        "pad": _pad_value(values),
        "verdict": "blocks" if failure else calibration_checks.verdict(findings),
        "good": GOOD_SAMPLES,
        "names_shown": NAMES_SHOWN,
        "images_problem": errors.get("images") or problem or failure,
    }


def _recognized(preview: ModelPreview | None, values: Values) -> suggestions.RecognizedModel | None:
    return suggestions.recognized_model(preview.recognition, values) if preview else None


def _pad_value(values: Values) -> int:
    preprocess = new_form.preprocess_of(values)
    return preprocess.pad_value if preprocess else 0


def _seen_size(model: ModelPreview | None, values: Values) -> tuple[int, int] | None:
    """Returns width and height of the input that takes pictures; None while unknown."""
    if model is None or model.facts is None:
        return None
    shapes = new_form.shapes_of(values, model.open_inputs)
    return calibration_checks.target_of(
        [shapes.get(entry["name"], entry["shape"]) for entry in model.facts["inputs"]], model.expectation
    ).size


def options_view(
    values: Values, errors: Errors, toolchains: tuple[ToolchainName, ...], unserved: Collection[ToolchainName] = ()
) -> dict[str, Any]:
    """Returns the options of the form that apply to the chosen toolchain and chip.

    Args:
        values: of the form, by field.
        errors: by field.
        toolchains: those of this installation.
        unserved: those of them that no worker serves now.
    """
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
    previews: Previews,
    values: Values,
    errors: Errors,
    user: str,
    toolchains: tuple[ToolchainName, ...],
    unserved: Collection[ToolchainName] = (),
) -> dict[str, Any]:
    """Returns what the whole form shows.

    Args:
        values: of the form, by field.
        errors: by field.
        toolchains: those of this installation.
        unserved: those of them that no worker serves now.
    """
    parts = (model_view(previews, values, errors, user), images_view(previews, values, errors, user))
    return {**parts[1], **parts[0], **options_view(values, errors, toolchains, unserved), "values": parts[0]["values"]}


def formula(options: Preprocess) -> Formula:
    """Returns how the preprocessing converts a pixel, with the range of its results."""
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
    """Shortens a number: 3504872 becomes 3.50 M."""
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.0f}"


def _model(
    previews: Previews, values: Values, user: str
) -> tuple[ChosenInput | None, ModelPreview | None, FormProblem | None]:
    chosen, problem = _chosen(previews, values["model_key"], values["model_name"], user)
    return chosen, previews.model(chosen.key, user) if chosen else None, problem


def _chosen(previews: Previews, key: str, name: str, user: str) -> tuple[ChosenInput | None, FormProblem | None]:
    if not key:
        return None, None
    try:
        size = previews.size_bytes(key, user)
    except ModelmillError as error:
        return None, problem_of(error)
    kind, source_id = object_keys.source_of(key) or ("", "")
    job_id = source_id if kind == "job" else ""
    return ChosenInput(key, name, size, job_id, f"/ui/inputs/{kind}/{source_id}/thumbs/"), None


def _for_checks(values: Values) -> Values:
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


def _scaled(scale: float) -> str:
    text = new_form.as_text(scale)
    if text == "1":
        return "pixel"
    return f"pixel / {text[2:]}" if text.startswith("1/") else f"pixel × {text}"


def _short(value: float) -> str:
    return f"{value:.3g}" if abs(value) >= 1e-6 else "0"


Kind = Literal["number", "text", "lines", "check", "choice"]


@dataclass(frozen=True)
class OptionField:
    """One control of the form."""

    name: str
    label: str
    hint: str
    kind: Kind
    choices: tuple[str, ...] = ()
    is_idle: bool = False
    """True if it has no effect with the current choices."""


_Applies = Callable[[Mapping[str, str]], bool]
_TEXTS: Mapping[str, tuple[str, str]] = {
    "quantization.method": ("Calibration", "How the range of each activation is chosen."),
    "quantization.percentile": ("Percentile", "Share of the activations that the range keeps, in percent."),
    "quantization.activation": ("Activations", "Type of the quantized activations."),
    "quantization.per_channel": ("Weights per channel", "One scale per output channel instead of one per layer."),
    "quantization.exclude_nodes": ("Nodes left in float", "One node name per line, as in out.onnx."),
    "quantization.goal": ("Goal", "snr>=20 searches for it; drop<=1%%, smallest, fastest. none: as chosen below."),
    "quantization.budget_s": ("Time budget, seconds", "For a goal: the search keeps the best so far."),
    "quantization.report_images": (
        "Folder of report pictures",
        "For a goal: pictures in this folder of the zip are used for the report only.",
    ),
    "quantization.saturation": (
        "How many pictures are enough",
        "Also measures SNR against the number of pictures, by calibrating with 1, 2, 4 and so on.",
    ),
    "kneron.goal": (
        "Goal",
        "snr>=20 goes from int8 up to int16 until the goal is reached; each step is a full run. Empty: a single run.",
    ),
    "kneron.budget_s": ("Time budget, seconds", "For a goal: no further step starts after it."),
    "kneron.datapath_bitwidth_mode": ("Bit width of activations", "mix: some layers in 16 bits; mixbw: by budget."),
    "kneron.weight_bitwidth_mode": ("Bit width of weights", ""),
    "kneron.model_in_bitwidth_mode": ("Bit width of inputs", ""),
    "kneron.model_out_bitwidth_mode": ("Bit width of outputs", ""),
    "kneron.cpu_node_bitwidth_mode": ("Bit width of CPU nodes", ""),
    "kneron.const_in_bitwidth_mode": ("Bit width of constant inputs", "default: the vendor's own."),
    "kneron.int16_nodes": ("Nodes in 16 bits", "KL730 only; one node name per line, as in out.onnx."),
    "kneron.flops_ratio": ("Share of 16-bit work", "For mixbw: how much of the arithmetic may be in 16 bits."),
    "kneron.datapath_range_method": ("Range method", "mmse suits outputs without a sigmoid or softmax."),
    "kneron.percentage": ("Percentage", "Share of the values that an 8-bit range keeps, 0.999 to 1."),
    "kneron.percentage_16b": ("Percentage, 16 bits", "The same for 16-bit ranges; not below the 8-bit one."),
    "kneron.percentile": ("Percentile", "For mmse: how far the search for a range goes."),
    "kneron.outlier_factor": ("Outlier factor", "Widens the range found; 1 leaves it as it is."),
    "kneron.quantize_mode": ("Quantize mode", "post_sigmoid: for models that end in a sigmoid."),
    "kneron.mode": ("Checks", "1: quantize only. 2: and check on one picture. 3: on all pictures, very slow."),
    "kneron.optimize": ("Optimization level", "0 to 4; higher compiles longer and may run faster."),
    "kneron.compiler_tiling": ("Compiler tiling", "deep_search compiles much longer and may run faster."),
    "kneron.model_id": ("Model id", "32768 to 65535; lower ids are the vendor's."),
    "kneron.version": ("Model version", "Four hexadecimal digits."),
    "kneron.input_fmt": ("Input format", "KL730 only, such as 4W4C8B; empty for the default."),
    "kneron.opt_matmul": ("Rewrite MatMul", "Avoids CPU nodes in some transformers."),
    "kneron.replace_avgpool_with_conv": ("Average pooling as convolution", "Avoids CPU nodes for large kernels."),
    "kneron.replace_dilated_conv": ("Replace dilated convolutions", "Avoids CPU nodes."),
    "kneron.skip_check": ("Skip the check after optimizing", "Faster and riskier."),
    "kneron.clear_shapes": ("Forget stored shapes", "Cures “inferred shape and existing shape differ”."),
    "kneron.weight_compress": ("Compress weights", "A smaller file."),
}


def _has_goal(values: Mapping[str, str]) -> bool:
    return values.get("quantization.goal", "").strip().lower() not in ("", NO_GOAL)


_MIXBW = ("kneron.datapath_bitwidth_mode", "kneron.weight_bitwidth_mode")
_APPLIES: Mapping[str, _Applies] = {
    "quantization.method": lambda v: not _has_goal(v),
    "quantization.percentile": lambda v: not _has_goal(v) and v.get("quantization.method") == "percentile",
    "quantization.per_channel": lambda v: not _has_goal(v),
    "quantization.budget_s": _has_goal,
    "quantization.report_images": _has_goal,
    "kneron.budget_s": lambda v: bool(v.get("kneron.goal")),
    "kneron.flops_ratio": lambda v: "mixbw" in [v.get(name) for name in _MIXBW],
    "kneron.percentage": lambda v: v.get("kneron.datapath_range_method") == "percentage",
    "kneron.percentage_16b": lambda v: v.get("kneron.datapath_range_method") == "percentage",
    "kneron.percentile": lambda v: v.get("kneron.datapath_range_method") == "mmse",
    "kneron.outlier_factor": lambda v: v.get("kneron.datapath_range_method") == "mmse",
    "kneron.int16_nodes": lambda v: v.get("platform") in ("", Chip.KL730.value),
    "kneron.input_fmt": lambda v: v.get("platform") in ("", Chip.KL730.value),
}


def advanced_fields(values: Values) -> list[OptionField]:
    """Returns the fields of the chosen toolchain, in the order of the table above."""
    toolchain, chip = target_of(values)
    group = "quantization" if toolchain is ToolchainName.HOST else "kneron"
    return [_field(name, label, hint, values, chip) for name, (label, hint) in _TEXTS.items() if name.startswith(group)]


def _field(name: str, label: str, hint: str, values: Values, chip: Chip | None) -> OptionField:
    kind, choices = _kind(name)
    applies = _APPLIES.get(name)
    is_idle = applies is not None and not applies(values)
    return OptionField(name, label, hint, kind, _allowed(choices, name, chip), is_idle)


def _kind(name: str) -> tuple[Kind, tuple[str, ...]]:
    group, _, leaf = name.partition(".")
    chosen: Any = Options.model_fields[group].annotation
    info = chosen.model_fields[leaf]
    annotation: Any = info.annotation
    if get_origin(annotation) is Literal:
        return "choice", tuple(str(choice) for choice in get_args(annotation))
    if annotation is bool:
        return "check", ()
    if annotation in (int, float):
        return "number", ()
    return ("lines", ()) if isinstance(info.default, tuple) else ("text", ())


def _allowed(choices: tuple[str, ...], name: str, chip: Chip | None) -> tuple[str, ...]:
    """Removes what the chip does not support: KL520 knows int8 only, KL720 no int4 weights (vendor manual v0.33.1)."""
    if not name.endswith("bitwidth_mode"):
        return choices
    if chip is Chip.KL520:
        return ("int8",)
    return tuple(choice for choice in choices if choice != "int4") if chip is Chip.KL720 else choices
