"""Decoders turn model outputs into boxes and classes: one module per model family, recognized by shapes."""

from __future__ import annotations

from collections.abc import Sequence

from app.inference.decoders.anchor_faces import Retinaface, Scrfd
from app.inference.decoders.base import ModelFamily, OutputSpec
from app.inference.decoders.blazeface import Blazeface
from app.inference.decoders.classifier import Classifier
from app.inference.decoders.detr import Detr, Rtdetr
from app.inference.decoders.fastestdet import Fastestdet
from app.inference.decoders.nanodet import Nanodet
from app.inference.decoders.own import own_families
from app.inference.decoders.segmentation import Segmentation
from app.inference.decoders.ssd import Ssd
from app.inference.decoders.text_detection import TextDetection
from app.inference.decoders.text_recognition import TextRecognition
from app.inference.decoders.ultraface import Ultraface
from app.inference.decoders.ultralytics import Yolov5, Yolov8, Yolov8Pose, Yolov8Seg
from app.inference.decoders.yolox import Yolox
from app.inference.decoders.yunet import Yunet
from app.inference.errors import ModelUnusable
from app.inference.prediction import Decoder
from app.inference.preprocessing import Size, shape_text

FAMILIES: tuple[ModelFamily, ...] = (
    Yunet(),
    Detr(),
    Rtdetr(),
    Ssd(),
    Ultraface(),
    Scrfd(),
    Retinaface(),
    Blazeface(),
    TextDetection(),
    TextRecognition(),
    Fastestdet(),
    Yolov8Pose(),
    Yolov8Seg(),
    Yolov8(),
    Yolov5(),
    Nanodet(),
    Yolox(),
    Segmentation(),
    Classifier(),
)


def family_of(named: Decoder, ports: Sequence[OutputSpec], size: Size) -> ModelFamily:
    """Returns the family of that name; for AUTO the first that the outputs fit, those of installed packages last.

    Args:
        ports: the outputs of the model.
        size: of the input; zeros if unknown.

    Raises:
        ModelUnusable: The outputs fit no family, or not the named one.
    """
    families = (*FAMILIES, *own_families())
    fitting = (family for family in families if named in (Decoder.AUTO, family.name) and family.fits(ports, size))
    for family in fitting:
        if named is not Decoder.AUTO or family.is_typical(ports, size):
            return family
    outputs = ", ".join(f"{port.name} {shape_text(port.shape)}" for port in ports)
    names = ", ".join(family.name for family in families)
    if named is Decoder.AUTO:
        raise ModelUnusable(f"no decoder understands the model's outputs: {outputs}", hint=f"Known are: {names}.")
    if named not in {family.name for family in families}:
        raise ModelUnusable(
            f"the decoder {named.value} is not installed here, or cannot be loaded",
            hint=f"Install its package where the model runs, or choose of {names}.",
        )
    raise ModelUnusable(
        f"the model's outputs are not those of {named}: {outputs}",
        hint=f"Leave the decoder to auto, or choose of {names}.",
    )
