"""Text recognition by connectionist temporal classification (CTC): PP-OCR, CRNN.

One output of T steps with C scores each, 1×T×C or T×1×C; class 0 is the blank, or the last class if its name says so,
the others are characters. The best class of each step counts, repetitions once; the confidence is the mean of their
probabilities. The names of the classes are the characters, with or without one for the blank. Source:
ppocr/postprocess/rec_postprocess.py of PaddlePaddle/PaddleOCR, Apache-2.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from app.inference.decoders.base import DecodedOutputs, LineOfText, Outputs, OutputSpec
from app.inference.decoders.scores import require_numbers, shares_of
from app.inference.decoders.text_detection import PADDLE
from app.inference.prediction import Decoder
from app.inference.predictor_options import PredictorOptions
from app.inference.preprocess_options import Preprocess
from app.inference.preprocessing import Fit, Size

LEAST_CLASSES = 11
"""Digits and a blank."""


class TextRecognition:
    """Implements ModelFamily."""

    name: ClassVar[Decoder] = Decoder.TEXT_RECOGNITION
    preprocess: ClassVar[Preprocess] = Preprocess(
        color="BGR", scale=1, mean=(127.5,), std=(127.5,), resize="letterbox", pad_value=127
    )
    usual_size: ClassVar[Size] = (320, 48)

    def usual_labels(self, ports: Sequence[OutputSpec]) -> tuple[str, ...]:
        """See `ModelFamily.usual_labels`."""
        return ()

    def fits(self, ports: Sequence[OutputSpec], size: Size) -> bool:
        """See `ModelFamily.fits`."""
        if len(ports) != 1 or len(ports[0].shape) != 3:
            return False
        batch, steps, classes = ports[0].shape
        return (classes or 0) >= LEAST_CLASSES and (batch in (None, 1) or steps == 1)

    def is_typical(self, ports: Sequence[OutputSpec], size: Size) -> bool:
        """See `ModelFamily.is_typical`."""
        return PADDLE.search(ports[0].name) is not None

    def read(self, outputs: Outputs, fit: Fit, size: Size, options: PredictorOptions) -> DecodedOutputs:
        """See `ModelFamily.read`."""
        (values,) = outputs.values()
        scores = values.reshape(-1, values.shape[-1]).astype(np.float32)
        require_numbers(scores)
        shares = shares_of(scores, is_exclusive=True)
        best, share = shares.argmax(axis=1), shares.max(axis=1)
        return DecodedOutputs(line=LineOfText(tuple(best.tolist()), tuple(share.tolist()), values.shape[-1]))
