"""Whether a decoder that a user names can read a model, as far as is known before the model runs. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from app.inference.errors import ModelUnusable
from app.inference.prediction import Decoder
from app.model_registry.model import Model

if TYPE_CHECKING:  # numpy comes with decoders: they are not imported before they are needed
    from app.inference.decoders import OutputSpec
    from app.inference.preprocessing import Shape, Size

OUTPUTS = {
    Decoder.CLASSIFIER: "[1, C] / [1, C, 1, 1], C > 1",
    Decoder.ULTRAFACE: "[1, N, 2] + [1, N, 4]",
    Decoder.YUNET: "3 × ([1, N, 1] + [1, N, 1] + [1, N, 4] + [1, N, 10])",
    Decoder.FASTESTDET: "[1, 5 + C, H/16, W/16]",
    Decoder.YOLOX: "[1, N, 5 + C]",
    Decoder.YOLOV5: "[1, N, 5 + C]",
    Decoder.YOLOV8: "[1, 4 + C, N]",
    Decoder.YOLOV8_POSE: "[1, 5 + 3·K, N]",
    Decoder.YOLOV8_SEG: "[1, 36 + C, N] + [1, 32, H/4, W/4]",
    Decoder.NANODET: "[1, N, C + 32] / 3 × ([1, N, C] + [1, N, 32 or 44])",
    Decoder.BLAZEFACE: "[1, 896, 1] + [1, 896, 16]",
    Decoder.SEGMENTATION: "[1, C, h, w] / [1, h, w, C] / [1, h, w]",
    Decoder.TEXT_DETECTION: "[1, 1, H, W]",
    Decoder.TEXT_RECOGNITION: "[1, T, C]",
    Decoder.SCRFD: "3 × ([1, N, 1] + [1, N, 4]), with or without 3 × [1, N, 10]",
    Decoder.RETINAFACE: "[1, N, 2] + [1, N, 4] + [1, N, 10]",
    Decoder.SSD: "[1, N, 4] + [1, N, C], or boxes, scores and classes after suppression",
    Decoder.DETR: "[1, N, 4] + [1, N, C]",
    Decoder.RTDETR: "[1, N, 4] + [1, N, C], or boxes, scores and labels",
}
"""The outputs that a decoder reads, for readers: C classes, N boxes, whose number depends on the size of the input, K
key points, T characters, H and W the sides of the input."""


def unfit_decoder(named: Decoder, model: Model, name: str, usable: Collection[Decoder] = OUTPUTS.keys()) -> str:
    """Returns why the decoder cannot read the model. Nothing is known of an enclosed decoder, of one of an installed
    package, and of a model with open sides: its worker says what it cannot read.

    Args:
        named: the decoder that the user names for the model; AUTO fits every model.
        model: a registered model.
        name: of the model, as the user writes it.
        usable: the product's decoders that may be chosen instead.

    Returns:
        The reason; empty if the decoder fits, or that is not known.
    """
    ports, size = output_ports(model), input_size(model)
    if named not in OUTPUTS or not are_whole(ports) or 0 in size:
        return ""
    from app.inference.decoders import FAMILIES
    from app.inference.preprocessing import shape_text

    fitting = [family for family in FAMILIES if family.fits(ports, size)]
    if any(family.name == named for family in fitting):
        return ""
    automatic = next((family.name for family in fitting if family.is_typical(ports, size)), None)
    choices = ["auto"] if automatic is None or automatic in usable else []
    choices += [family.name for family in fitting if family.name in usable]
    choice = f"{', '.join(choices)}, or another model" if choices else "another model"
    outputs = ", ".join(f"{port.name} {shape_text(port.shape)}" for port in ports)
    return (
        f"The decoder {named.value!r} cannot read the model {name!r}: its outputs are {outputs}, and the decoder needs "
        f"{OUTPUTS[named]}. Choose {choice}."
    )


def output_ports(model: Model) -> list[OutputSpec]:
    """Returns the outputs of a model, as far as its facts say; empty if they are not known."""
    from app.inference.decoders import OutputSpec

    return [OutputSpec(str(tensor["name"]), _get_shape(tensor)) for tensor in model.facts.get("outputs") or ()]


def are_whole(ports: list[OutputSpec]) -> bool:
    """Returns whether all sides of all outputs are known, except those of the batch."""
    return bool(ports) and all(port.shape and None not in port.shape[1:] for port in ports)


def input_size(model: Model) -> Size:
    """Returns the width and height of a model's input in pixels; zeros where the input leaves them open."""
    from app.inference.preprocessing import input_layout

    inputs = model.facts.get("inputs") or ()
    try:
        return input_layout(_get_shape(inputs[0]), (0, 0)).size if inputs else (0, 0)
    except ModelUnusable:
        return 0, 0


def _get_shape(tensor: Mapping[str, Any]) -> Shape:
    return tuple(side if isinstance(side, int) and side > 0 else None for side in tensor.get("shape") or ())
