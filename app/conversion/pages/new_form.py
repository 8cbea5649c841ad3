"""The form of a new conversion as flat text fields, and the options they stand for.

Pure. A field's name is the path of its option ("preprocess.scale"). In addition, "preset" and "pre" name a set of
values, and "preset_was" and "pre_was" are the sets that the page showed, so that choosing another set is distinguished
from changing a value. "pre_for" is the key of the model for which the preprocessing was selected.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from app.conversion import presets
from app.conversion.intake.entry_points import OpenInput
from app.conversion.options import Chip, Options, Preprocess, ToolchainName
from app.conversion.pages.form_problems import FormProblem, problems_of
from app.inference.preprocess_options import read_preprocess
from app.kit.text.json_form import FormError
from app.kit.text.json_values import JsonObject

Values = dict[str, str]
GROUPS = ("preprocess", "quantization", "kneron")
"""Groups of options that have fields."""
NOT_SHOWN = {"quantization": {"steps"}}
"""Options without a field: how a search made its candidate is set by a button, not by hand."""
DEFAULTS: Mapping[str, Mapping[str, Any]] = Options().model_dump(include=set(GROUPS), exclude=NOT_SHOWN)
PLAIN = (
    "name",
    "tags",
    "model_key",
    "model_name",
    "more_models",
    "each_pre",
    "quant_key",
    "quant_name",
    "toolchain",
    "platform",
    "preset",
    "preset_was",
    "pre",
    "pre_was",
    "pre_for",
    "allow_damaged_images",
    "no_cache",
    "advanced",
    "pre_open",
    "from",
)
OPTION_FIELDS = tuple(f"{group}.{name}" for group in GROUPS for name in DEFAULTS[group])
ALSO = "also."
"""Prefix of the fields that select additional presets; each of them becomes a separate conversion."""
SHAPE_FIELD = re.compile(r"shape\.\d{1,3}(\.\d{1,2})?")
TEXT_MAX = 20_000
OpenInputs = Sequence[OpenInput]


def values_of(options: Options) -> Values:
    """Returns the fields that represent these options."""
    values = {"toolchain": options.toolchain.value, "platform": options.platform.value if options.platform else ""}
    for group, chosen in options.model_dump(include=set(GROUPS), exclude=NOT_SHOWN).items():
        for name, value in chosen.items():
            values[f"{group}.{name}"] = as_text(value)
    values["allow_damaged_images"] = as_text(options.allow_damaged_images)
    quantization = options.quantization if options.toolchain is ToolchainName.HOST else options.kneron
    preset = presets.quantization_preset_of(options.toolchain, options.platform, quantization.model_dump())
    values["preset"] = values["preset_was"] = preset
    values["pre"] = values["pre_was"] = presets.preprocess_preset_of(options.preprocess)
    return {**dict.fromkeys(PLAIN, ""), **values}


def merge_values(base: Mapping[str, str], sent: Mapping[str, Sequence[str]]) -> Values:
    """Returns the fields of the page, replaced by those that were sent; unknown names are omitted."""
    fields = {name: texts[-1][:TEXT_MAX] for name, texts in sent.items() if texts and _is_field(name)}
    return {**base, **fields}


def settle(values: Mapping[str, str]) -> Values:
    """Applies a change: a newly chosen set fills in its values; values that differ from their set make it "custom"."""
    fields = dict(values)
    toolchain, chip = target_of(values)
    offered = presets.quantization_presets(toolchain, chip)
    group = "quantization" if toolchain is ToolchainName.HOST else "kneron"
    if fields["preset"] not in (*offered, presets.CUSTOM):
        fields["preset"] = next(iter(offered))
    if fields["preset"] in offered and fields["preset"] != fields["preset_was"]:
        _fill(fields, group, offered[fields["preset"]])
    else:
        fields["preset"] = presets.quantization_preset_of(toolchain, chip, _convert_values(fields, group))
    if fields["pre"] in presets.PREPROCESS and fields["pre"] != fields["pre_was"]:
        _fill(fields, "preprocess", presets.PREPROCESS[fields["pre"]])
    elif fields["pre"] != presets.CUSTOM:
        fields["pre"] = _choose_preprocess_preset(fields)
    return {**fields, "preset_was": fields["preset"], "pre_was": fields["pre"]}


def variants_of(values: Values) -> dict[str, Values]:
    """Returns the fields of each conversion by its preset's name: first the chosen one, then the additional ones."""
    variants = {values["preset"]: values}
    for name in quantization_presets_of(values):
        if values.get(f"{ALSO}{name}") == "1" and name not in variants:
            variants[name] = settle({**values, "preset": name, "preset_was": ""})
    return variants


def quantization_presets_of(values: Mapping[str, str]) -> list[str]:
    """Returns the names of the presets that the chosen target supports."""
    return list(presets.quantization_presets(*target_of(values)))


def target_of(values: Mapping[str, str]) -> tuple[ToolchainName, Chip | None]:
    """Returns the chosen toolchain, and the chip if the toolchain has chips."""
    toolchain = ToolchainName.KNERON if values["toolchain"] == ToolchainName.KNERON else ToolchainName.HOST
    chips = {chip.value: chip for chip in Chip}
    return toolchain, chips.get(values["platform"]) if toolchain is ToolchainName.KNERON else None


def options_of(
    values: Mapping[str, str], open_inputs: OpenInputs = ()
) -> tuple[Options | None, dict[str, FormProblem]]:
    """Reads the options. Of the fields of the two toolchains only those of the chosen one count.

    Args:
        open_inputs: inputs whose shape has to be given.

    Returns:
        The options, or None and the problems by field.
    """
    toolchain, chip = target_of(values)
    groups = ("preprocess", "quantization" if toolchain is ToolchainName.HOST else "kneron")
    data: JsonObject = {
        "toolchain": values["toolchain"],
        "platform": chip,
        "input_shapes": shapes_of(values, open_inputs),
        "allow_damaged_images": values["allow_damaged_images"] == "1",
        **{group: _convert_values(values, group) for group in groups},
    }
    if toolchain is ToolchainName.KNERON and chip is None:
        return None, {"platform": FormProblem("Choose the chip.")}
    try:
        return Options.model_validate(data), {}
    except ValidationError as error:
        return None, problems_of(error)


def preprocess_of(values: Mapping[str, str]) -> Preprocess | None:
    """Returns the preprocessing of the form; None if its fields are not valid."""
    try:
        return read_preprocess(_convert_values(values, "preprocess"))
    except FormError:
        return None


def shapes_of(values: Mapping[str, str], open_inputs: OpenInputs) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of those open inputs for which every axis is a number above 0."""
    shapes = {}
    for index, entry in enumerate(open_inputs):
        texts = _read_axes(values, index, entry["shape"])
        numbers = [int(text) for text in texts if re.fullmatch(r"[0-9]{1,9}", text)]
        if texts and len(numbers) == len(texts) and min(numbers) > 0:
            shapes[str(entry["name"])] = tuple(numbers)
    return shapes


def shape_values(shapes: Mapping[str, Sequence[int]], open_inputs: OpenInputs) -> Values:
    """Returns the fields that represent these shapes."""
    fields = {}
    for index, entry in enumerate(open_inputs):
        shape = shapes.get(str(entry["name"]), ())
        if not is_rank_known(entry["shape"]):
            fields[f"shape.{index}"] = ", ".join(map(str, shape))
        for axis, size in enumerate(shape):
            fields[f"shape.{index}.{axis}"] = str(size)
    return fields


def is_rank_known(shape: Sequence[Any]) -> bool:
    return list(shape) != ["..."]


def tags_of(values: Mapping[str, str]) -> tuple[str, ...]:
    parts = re.split(r"[,，、\n]", values["tags"])
    return tuple(dict.fromkeys(part.strip() for part in parts if part.strip()))


def as_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, float):
        return _format_number(value)
    if isinstance(value, tuple | list):
        separator = "\n" if value and isinstance(value[0], str) else ", "
        return separator.join(as_text(part) for part in value)
    return str(value)


def _format_number(value: float) -> str:
    """Writes 1/255 and 1/127.5 as people do."""
    inverse = 1 / value if value else 0.0
    if 2 < inverse < 1000 and abs(2 * inverse - round(2 * inverse)) < 1e-6 and f"{value:.6g}" != f"{value:.4g}":
        return f"1/{inverse:.6g}"
    return f"{value:.10g}"


def _is_field(name: str) -> bool:
    is_preset = name.startswith(ALSO) and name.removeprefix(ALSO) in presets.HOST
    return name in PLAIN or name in OPTION_FIELDS or is_preset or SHAPE_FIELD.fullmatch(name) is not None


def _read_axes(values: Mapping[str, str], index: int, shape: Sequence[Any]) -> list[str]:
    if not is_rank_known(shape):
        return [part for part in re.split(r"[,x× ]+", values.get(f"shape.{index}", "").strip()) if part]
    return [
        str(axis) if isinstance(axis, int) else values.get(f"shape.{index}.{place}", "").strip()
        for place, axis in enumerate(shape)
    ]


def _convert_values(values: Mapping[str, str], group: str) -> JsonObject:
    """Returns the values of a group, converted to the types of their fields where possible."""
    return {name: _read(values.get(f"{group}.{name}"), default) for name, default in DEFAULTS[group].items()}


def _read(text: str | None, default: Any) -> Any:
    if text is None:
        return default
    text = text.strip()
    if isinstance(default, bool):
        return text == "1"
    if isinstance(default, tuple):
        return _read_several(text, are_numbers=bool(default))
    if isinstance(default, float):
        return _parse_number(text)
    if isinstance(default, int):
        return int(text) if re.fullmatch(r"-?[0-9]{1,9}", text) else text
    return text if text or default is not None else None


def _read_several(text: str, *, are_numbers: bool) -> tuple[float | str, ...]:
    if are_numbers:
        return tuple(_parse_number(part) for part in re.split(r"[,，;\s]+", text) if part)
    return tuple(line.strip() for line in text.splitlines() if line.strip())


def _parse_number(text: str) -> float | str:
    """Reads a decimal number or a quotient such as 1/255."""
    try:
        above, _, below = text.partition("/")
        value = float(above) / float(below) if below else float(above)
    except (ValueError, ZeroDivisionError):
        return text
    return value if value or not below else text


def _fill(values: Values, group: str, chosen: Mapping[str, Any]) -> None:
    values.update({f"{group}.{name}": as_text(value) for name, value in chosen.items()})


def _choose_preprocess_preset(values: Mapping[str, str]) -> str:
    preprocess = preprocess_of(values)
    return presets.preprocess_preset_of(preprocess) if preprocess else presets.CUSTOM
