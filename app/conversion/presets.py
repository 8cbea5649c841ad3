"""Named starting points for options: what Goal, Fast, Balanced, Accurate mean, and the usual ways to prepare pictures.

Pure data. Texts are written where they are shown; a name here is a key.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.conversion.goals import DEFAULT_GOAL
from app.conversion.options import BEST, Chip, Preprocess, ToolchainName

GOAL, FAST, BALANCED, ACCURATE, CUSTOM = "goal", "fast", "balanced", "accurate", "custom"

Values = Mapping[str, Any]

HOST: Mapping[str, Values] = {
    GOAL: {"goal": DEFAULT_GOAL, "method": BEST, "percentile": 99.999, "per_channel": True},
    FAST: {"goal": "", "method": "minmax"},
    BALANCED: {"goal": "", "method": "percentile", "percentile": 99.999},
    ACCURATE: {"goal": "", "method": BEST},
}
"""A search for a goal; and without one: calibration by range, by range without outliers, and the best of a few
quantizations, each slower than the one before."""

_ALL_16 = dict.fromkeys(("model_in_bitwidth_mode", "model_out_bitwidth_mode", "cpu_node_bitwidth_mode"), "int16")
_ALL_8 = dict.fromkeys(_ALL_16, "int8")
KNERON: Mapping[str, Values] = {
    FAST: {"datapath_bitwidth_mode": "int8", "weight_bitwidth_mode": "int8", **_ALL_8},
    BALANCED: {"datapath_bitwidth_mode": "mix light", "weight_bitwidth_mode": "mix light", **_ALL_16},
    ACCURATE: {"datapath_bitwidth_mode": "int16", "weight_bitwidth_mode": "int16", **_ALL_16},
}
"""The first, second and last rung of the vendor's ladder (manual v0.33.1: quality int16 > mix light > int8)."""


def quantization_presets(toolchain: ToolchainName, chip: Chip | None) -> Mapping[str, Values]:
    """The presets this target can do. Chip 520 knows int8 only, so it has the first one."""
    if toolchain is ToolchainName.HOST:
        return HOST
    return {FAST: KNERON[FAST]} if chip is Chip.KL520 else KNERON


def quantization_preset_of(toolchain: ToolchainName, chip: Chip | None, values: Values) -> str:
    """Which preset these values are, as far as presets go; else CUSTOM."""
    return _find_matching(quantization_presets(toolchain, chip), values)


IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
PREPROCESS: Mapping[str, Values] = {
    "unit": {"color": "auto", "scale": 1 / 255, "mean": (0.0,), "std": (1.0,)},
    "signed": {"color": "auto", "scale": 1 / 127.5, "mean": (1.0,), "std": (1.0,)},
    "imagenet": {"color": "RGB", "scale": 1 / 255, "mean": IMAGENET_MEAN, "std": IMAGENET_STD},
    "shift127": {"color": "auto", "scale": 1.0, "mean": (127.0,), "std": (128.0,)},
    "bytes_bgr": {"color": "BGR", "scale": 1.0, "mean": (0.0,), "std": (1.0,)},
}
"""x = (pixel * scale - mean) / std. How a picture is fitted (resize, pad_value) is a choice apart."""


def preprocess_preset_of(options: Preprocess) -> str:
    values = {"color": options.color, "scale": options.scale, "mean": options.mean, "std": options.std}
    return _find_matching(PREPROCESS, values)


def _find_matching(presets: Mapping[str, Values], values: Values) -> str:
    for name, preset in presets.items():
        if all(_is_same(values.get(field), expected) for field, expected in preset.items()):
            return name
    return CUSTOM


def _is_same(first: Any, second: Any) -> bool:
    """Numbers may have been through a form: 0.00392157 is 1/255."""
    if isinstance(first, tuple | list) and isinstance(second, tuple | list):
        return len(first) == len(second) and all(map(_is_same, first, second))
    if isinstance(first, float) and isinstance(second, int | float):
        return abs(first - second) <= 1e-6 * max(1e-3, abs(second))
    return bool(first == second)
