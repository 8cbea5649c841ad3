"""Default names of classes, for models without a model card that has them."""

from __future__ import annotations

from app.inference.prediction import Decoder

FACE = ("face",)
COCO = (
    "person",
    "bicycle",
    "car",
    "motorcycle",
    "airplane",
    "bus",
    "train",
    "truck",
    "boat",
    "traffic light",
    "fire hydrant",
    "stop sign",
    "parking meter",
    "bench",
    "bird",
    "cat",
    "dog",
    "horse",
    "sheep",
    "cow",
    "elephant",
    "bear",
    "zebra",
    "giraffe",
    "backpack",
    "umbrella",
    "handbag",
    "tie",
    "suitcase",
    "frisbee",
    "skis",
    "snowboard",
    "sports ball",
    "kite",
    "baseball bat",
    "baseball glove",
    "skateboard",
    "surfboard",
    "tennis racket",
    "bottle",
    "wine glass",
    "cup",
    "fork",
    "knife",
    "spoon",
    "bowl",
    "banana",
    "apple",
    "sandwich",
    "orange",
    "broccoli",
    "carrot",
    "hot dog",
    "pizza",
    "donut",
    "cake",
    "chair",
    "couch",
    "potted plant",
    "bed",
    "dining table",
    "toilet",
    "tv",
    "laptop",
    "mouse",
    "remote",
    "keyboard",
    "cell phone",
    "microwave",
    "oven",
    "toaster",
    "sink",
    "refrigerator",
    "book",
    "clock",
    "vase",
    "scissors",
    "teddy bear",
    "hair drier",
    "toothbrush",
)
"""The 80 classes of COCO in the usual order of detectors."""

_FACES = frozenset({Decoder.ULTRAFACE, Decoder.YUNET, Decoder.SCRFD, Decoder.RETINAFACE})
_BESIDE = {
    Decoder.FASTESTDET: 5,
    Decoder.YOLOX: 5,
    Decoder.YOLOV5: 5,
    Decoder.YOLOV8: 4,
    Decoder.NANODET: 32,
}
"""Channels of a detector that are not classes: a box, and what belongs to it."""


def usual_labels(decoder: Decoder, shape: tuple[int | None, ...]) -> tuple[str, ...]:
    """Returns default names; empty if the classes are not known.

    Args:
        shape: of the first output.
    """
    if decoder in _FACES:
        return FACE
    return COCO if decoder in _BESIDE and len(COCO) + _BESIDE[decoder] in shape[1:] else ()
