"""A sandbox entry point: the answers of a converted model to reference pictures, before and after quantization.

The pictures and both models may be hostile, so they are opened only in a child. It is called by name.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import cast

import numpy as np
from PIL import Image, ImageOps

from app.conversion.intake.archive import unpack
from app.conversion.intake.entry_points import AnswersRequest, AnswersResult, ModelAnswer, PictureAnswers
from app.conversion.toolchains.base import Progress
from app.conversion.toolchains.samples import KINDS
from app.conversion.toolchains.samples.pictures import FORMATS
from app.inference.errors import InferenceFailed, ModelUnusable
from app.inference.model_card import Format, ModelCard
from app.inference.picture_codec import DECODER_ERRORS, MAX_PIXELS
from app.inference.prediction import Prediction, details_of
from app.inference.predictor import Predictor
from app.inference.predictor_factory import open_predictor
from app.inference.predictor_options import ExecutionProvider, PredictorOptions
from app.kit.errors import ModelmillError

SHOWN_SIDE = 960
"""Longer side of the pictures that are written, in pixels."""
BOXES_MOST = 60
CLASSES_SHOWN = 5


def draw_answers(request: AnswersRequest, progress: Progress) -> AnswersResult:
    """Run both models on the named pictures and write each picture as <place in names>.webp."""
    folder, into = Path(request["unpack_to"]), Path(request["into"])
    into.mkdir(parents=True, exist_ok=True)
    unpack(request)
    options = PredictorOptions(preprocess=request["preprocess"], provider=ExecutionProvider.CPU)
    try:
        models = {
            "float": _open(Path(request["float"]), Format.ONNX, options),
            "int8": _open(Path(request["int8"]), Format.BIE, options),
        }
    except ModelmillError as error:
        return {"problem": error.message, "decoder": "", "is_sure": False, "labels": [], "pictures": []}
    quantized = models["int8"]
    pictures = list(_answer_samples(models, folder, into, request["names"], progress))
    return {
        "problem": "",
        "decoder": quantized.decoder.value,
        "is_sure": _is_sure(quantized),
        "labels": list(quantized.labels),
        "pictures": pictures,
    }


def _open(path: Path, form: Format, options: PredictorOptions) -> Predictor:
    card = ModelCard(path.name, form, sha256="", size_bytes=path.stat().st_size, toolchain="host")
    return open_predictor(card, path, None, options)


def _is_sure(predictor: Predictor) -> bool:
    try:
        predictor.refuse_guess()
    except ModelUnusable:
        return False
    return True


def _answer_samples(
    models: dict[str, Predictor], folder: Path, into: Path, names: list[str], progress: Progress
) -> Iterable[PictureAnswers]:
    for place, name in enumerate(names):
        progress(place / len(names), name)
        picture = _load_picture(folder, name)
        if picture is None:
            continue
        shown = picture.copy()
        shown.thumbnail((SHOWN_SIDE, SHOWN_SIDE), Image.Resampling.LANCZOS)
        ratio = shown.width / picture.width
        try:
            float_, int8 = (_answer(models[key].predict(np.asarray(picture)), ratio) for key in ("float", "int8"))
        except InferenceFailed:
            continue
        shown.save(into / f"{place}.webp", "WEBP", quality=82)
        yield {"place": place, "width": shown.width, "height": shown.height, "float": float_, "int8": int8}


def _answer(prediction: Prediction, ratio: float) -> ModelAnswer:
    """Returns the answer as JSON.

    Args:
        ratio: size of the written picture relative to the one that was used.
    """
    best = sorted(enumerate(prediction.probabilities), key=lambda one: -one[1])[:CLASSES_SHOWN]
    boxes = [box.scaled(ratio) for box in sorted(prediction.boxes, key=lambda box: -box.score)[:BOXES_MOST]]
    classes = [(label, round(probability, 4)) for label, probability in best]
    return cast(ModelAnswer, {"boxes": [box.to_json() for box in boxes], **details_of(boxes), "classes": classes})


def _load_picture(folder: Path, name: str) -> Image.Image | None:
    """Returns the picture in RGB; None for a sample that is not a picture, or cannot be read."""
    path = folder / name
    if path.parent != folder or not path.is_file() or KINDS.get(path.suffix.lower()) != "image":
        return None
    try:
        with Image.open(path, formats=FORMATS) as image:
            if image.width * image.height > MAX_PIXELS:
                return None
            return ImageOps.exif_transpose(image).convert("RGB")
    except DECODER_ERRORS:
        return None
