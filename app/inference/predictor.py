"""A model that is ready for pictures: its runtime, its preprocessing and its decoder, matched to each other."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy.typing as npt

from app.inference.decoders import ModelFamily
from app.inference.decoders.base import DecodedOutputs, LineOfText
from app.inference.decoders.class_names import BACKGROUND
from app.inference.decoders.enclosed import EnclosedFamily
from app.inference.errors import InferenceFailed, ModelUnusable
from app.inference.prediction import MOST_TEXT, Box, Decoder, Picture, Prediction
from app.inference.predictor_options import PredictorOptions
from app.inference.preprocessing import Fit, Preprocessor, Size
from app.inference.runtimes import Runtime
from app.inference.runtimes.micro_batches import BatchingRuntime
from app.kit.clock import ms_since

TEXT = ("text",)
MOST_SHOWN = 20
"""Number of class names in an error."""


class Predictor:
    """Threads may share it: onnxruntime runs their pictures at once, an NPU one after the other.

    Args:
        preparer: makes the input of a picture.
        family: reads the outputs.
        labels: names of the classes; may be empty.
        options: thresholds.
        doubt: why the family was only guessed; empty: it is sure.
    """

    def __init__(
        self,
        runtime: Runtime,
        preparer: Preprocessor,
        family: ModelFamily,
        labels: tuple[str, ...],
        options: PredictorOptions,
        *,
        doubt: str = "",
    ) -> None:
        self._runtime, self._preparer, self._family, self._options = runtime, preparer, family, options
        self.runtime = runtime.description
        """What really runs the model, for readers."""
        self.why = runtime.why
        """Why that is not what was named; empty if it is."""
        self._characters = labels
        self.labels = TEXT if family.name is Decoder.TEXT_RECOGNITION else labels
        """Names of the classes; may be empty. Of a model that reads text, one for all texts."""
        self._doubt = doubt
        self._counting = counting_classes(options.classes, self.labels, family.name)

    @property
    def described_runtime(self) -> str:
        """What really runs the model, and why that is not what was named or chosen."""
        return f"{self.runtime} ({self.why})" if self.why else self.runtime

    def refuse_guess(self) -> None:
        """Ensures that the model's kind is known.

        Raises:
            ModelUnusable: It was only guessed.
        """
        if self._doubt:
            raise ModelUnusable(
                self._doubt, hint="If it is a classifier, say so by the decoder classifier or by its labels."
            )

    @property
    def decoder(self) -> Decoder:
        return self._family.name

    @property
    def input_size(self) -> Size:
        """Width and height of the model's input."""
        return self._preparer.layout.size

    def predict(self, picture: Picture) -> Prediction:
        """Runs the model on a picture.

        Raises:
            InferenceFailed: It cannot be run.
        """
        started = time.perf_counter()
        array, fit = self._preparer.prepare(picture)
        outputs = self._runtime.run(array)
        return self._read(outputs, fit, started)

    def predict_several(self, pictures: Sequence[Picture]) -> list[Prediction | InferenceFailed]:
        """Runs the model on pictures, in one call if it is opened for that. Returns for each its prediction, or why
        there is none; `ms` of each counts from the start of all."""
        started = time.perf_counter()
        prepared = [self._preparer.prepare(picture) for picture in pictures]
        arrays = [array for array, _ in prepared]
        if isinstance(self._runtime, BatchingRuntime):
            answers = self._runtime.run_several(arrays)
        else:
            answers = [_run_runtime(self._runtime, array) for array in arrays]
        return [
            answer if isinstance(answer, InferenceFailed) else self._read(answer, fit, started)
            for answer, (_, fit) in zip(answers, prepared, strict=True)
        ]

    def _read(self, outputs: Mapping[str, npt.NDArray[Any]], fit: Fit, started: float) -> Prediction:
        decoded = self._family.read(outputs, fit, self.input_size, self._options)
        if decoded.line is not None:
            decoded = self._to_outputs(decoded.line, fit.source)
        return Prediction(
            self.counted(decoded.boxes),
            self.counted(decoded.candidates),
            decoded.probabilities,
            ms=ms_since(started),
            runtime=self.runtime,
        )

    def _to_outputs(self, line: LineOfText, size: Size) -> DecodedOutputs:
        """Returns the line as a box with its text, as large as the picture; nothing if nothing is written there."""
        read, score = line.read(self._characters)
        text = read.strip()[:MOST_TEXT]
        boxes = (Box(0.0, 0.0, float(size[0]), float(size[1]), score, text=text),) if text else ()
        return DecodedOutputs.of_candidates(boxes, self._options)

    def counted(self, boxes: tuple[Box, ...]) -> tuple[Box, ...]:
        """Returns the boxes of classes that count."""
        return boxes if self._counting is None else tuple(box for box in boxes if box.label in self._counting)

    def close(self) -> None:
        """Releases the device, the memory and the process of an enclosed decoder. Later predictions raise
        InferenceFailed."""
        self._runtime.close()
        if isinstance(self._family, EnclosedFamily):
            self._family.close()


def _run_runtime(runtime: Runtime, array: npt.NDArray[Any]) -> dict[str, npt.NDArray[Any]] | InferenceFailed:
    try:
        return runtime.run(array)
    except InferenceFailed as error:
        return error


def counting_classes(classes: Sequence[str], labels: Sequence[str], family: Decoder) -> frozenset[int] | None:
    """Returns the indexes of the classes that count; None for all.

    Args:
        classes: names, ignoring case; a number is an index for a model without names.
        labels: names of the model's classes; may be empty.
        family: of the model.

    Raises:
        ModelUnusable: The model is a classifier, or has no such class.
    """
    if not classes:
        background = {number for number, name in enumerate(labels) if name.lower() == BACKGROUND}
        return frozenset(range(len(labels))) - background if background else None
    if family is Decoder.CLASSIFIER:
        raise ModelUnusable("only a detector has classes that count, and this is a classifier", hint="Leave them out.")
    numbers = {name.lower(): number for number, name in enumerate(labels)}
    missing = [name for name in classes if name.lower() not in numbers and not (name.isdecimal() and not labels)]
    if missing:
        known = ", ".join(labels[:MOST_SHOWN]) + (" …" if len(labels) > MOST_SHOWN else "")
        hint = f"It knows {known}." if labels else "It has no names of classes: give their numbers, or labels."
        raise ModelUnusable(f"the model has no class {missing[0][:80]!r}", hint=hint)
    return frozenset(numbers[name.lower()] if name.lower() in numbers else int(name) for name in classes)
