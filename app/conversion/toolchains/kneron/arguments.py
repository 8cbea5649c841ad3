"""The user's options as arguments of the vendor's calls (vendor manual v0.33.1), and warnings about unused ones."""

from __future__ import annotations

import re

from app.conversion.options import Chip, KneronOptions, Options
from app.kit.text.json_values import JsonObject

PLAIN_NAME = re.compile(r"[\w.-]+", re.ASCII)
IO_BITS = ("model_in_bitwidth_mode", "model_out_bitwidth_mode", "cpu_node_bitwidth_mode")
BITS = ("datapath_bitwidth_mode", "weight_bitwidth_mode", *IO_BITS)
NODE_BITS = 15
"""The value for 16 bits in the vendor's quan_config."""
SWITCHES = ("opt_matmul", "replace_avgpool_with_conv", "replace_dilated_conv", "skip_check", "clear_shapes")


def config(options: KneronOptions) -> JsonObject:
    return {} if options.input_fmt is None else {"input_fmt": options.input_fmt}


def optimize(options: Options, shapes: dict[str, tuple[int, ...]]) -> JsonObject:
    """Returns the arguments of the optimizer.

    The staged graph already has fixed shapes; naming them as well makes the vendor's shape inference start from them.
    The form `name:1,3,224,224` allows no colon in a name, so such graphs rely on the stored shapes.

    Args:
        shapes: The fixed shapes of all graph inputs.
    """
    chosen = {name: getattr(options.kneron, name) for name in SWITCHES}
    if options.input_shapes and all(PLAIN_NAME.fullmatch(name) for name in shapes):
        chosen["overwrite_input_shapes"] = [f"{name}:{','.join(map(str, shape))}" for name, shape in shapes.items()]
    return chosen


def evaluate(options: KneronOptions) -> JsonObject:
    return {**{name: getattr(options, name) for name in BITS}, "compiler_tiling": options.compiler_tiling}


def analysis(options: KneronOptions, threads: int) -> JsonObject:
    """Returns the arguments of the analysis. Arguments that only one method reads are sent only with that method."""
    names = ["quantize_mode", "datapath_range_method", "compiler_tiling", "mode", "optimize", *BITS]
    if options.datapath_range_method == "mmse":
        names += ["percentile", "outlier_factor"]
    else:
        names += ["percentage", "percentage_16b"]
    if "mixbw" in (options.datapath_bitwidth_mode, options.weight_bitwidth_mode):
        names += ["flops_ratio"]
    chosen = {"threads": threads, **{name: getattr(options, name) for name in names}}
    if options.const_in_bitwidth_mode != "default":
        chosen["const_in_bitwidth_mode"] = options.const_in_bitwidth_mode
    if options.int16_nodes:
        chosen["quan_config"] = {node: {"bitwidth": {"all": NODE_BITS}} for node in options.int16_nodes}
    return chosen


def compile(chip: Chip, options: KneronOptions) -> JsonObject:
    """Returns the arguments of the compiler. KL520 always compiles with default tiling."""
    tiling = "default" if chip is Chip.KL520 else options.compiler_tiling
    return {"weight_compress": options.weight_compress, "compiler_tiling": tiling}


def list_requested_bits(options: KneronOptions) -> dict[str, str]:
    """Returns the bit widths, with the report's names of their sides."""
    return {name.removesuffix("_bitwidth_mode"): getattr(options, name) for name in BITS}


def warn_of_dropped(options: KneronOptions, dropped: list[dict[str, str]]) -> list[str]:
    """Returns sentences for the options that the user changed and the installed toolchain does not know."""
    defaults = KneronOptions()
    return [
        f"the installed toolchain does not know {entry['argument']} of {entry['call']}; it was left out"
        for entry in dropped
        if getattr(options, entry["argument"], None) != getattr(defaults, entry["argument"], None)
        or entry["argument"] == "overwrite_input_shapes"
    ]


def name_warnings(names: list[str]) -> list[str]:
    odd = [name for name in names if not PLAIN_NAME.fullmatch(name)]
    return [f"input name {name!r} holds characters that the toolchain may stumble over" for name in odd]
