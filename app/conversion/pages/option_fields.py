"""The advanced options of a new conversion as controls of its form. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

from app.conversion.options import NO_GOAL, Chip, Options, ToolchainName
from app.conversion.pages.new_form import Values, target_of

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
    "quantization.budget_s": (
        "Time budget, seconds",
        "For a goal: the search keeps the best so far. Empty: by CPU time.",
    ),
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


def list_advanced_fields(values: Values) -> list[OptionField]:
    """Returns the fields of the chosen toolchain, in the order of the table above."""
    toolchain, chip = target_of(values)
    group = "quantization" if toolchain is ToolchainName.HOST else "kneron"
    return [
        _make_field(name, label, hint, values, chip) for name, (label, hint) in _TEXTS.items() if name.startswith(group)
    ]


def _make_field(name: str, label: str, hint: str, values: Values, chip: Chip | None) -> OptionField:
    kind, choices = _choose_kind(name)
    applies = _APPLIES.get(name)
    is_idle = applies is not None and not applies(values)
    return OptionField(name, label, hint, kind, _select_allowed(choices, name, chip), is_idle)


def _choose_kind(name: str) -> tuple[Kind, tuple[str, ...]]:
    group, _, leaf = name.partition(".")
    chosen: Any = Options.model_fields[group].annotation
    info = chosen.model_fields[leaf]
    annotation: Any = info.annotation
    if get_origin(annotation) is Literal:
        return "choice", tuple(str(choice) for choice in get_args(annotation))
    if annotation is bool:
        return "check", ()
    if annotation in (int, float, float | None):
        return "number", ()
    return ("lines", ()) if isinstance(info.default, tuple) else ("text", ())


def _select_allowed(choices: tuple[str, ...], name: str, chip: Chip | None) -> tuple[str, ...]:
    """Removes what the chip does not support: KL520 knows int8 only, KL720 no int4 weights (vendor manual v0.33.1)."""
    if not name.endswith("bitwidth_mode"):
        return choices
    if chip is Chip.KL520:
        return ("int8",)
    return tuple(choice for choice in choices if choice != "int4") if chip is Chip.KL720 else choices
