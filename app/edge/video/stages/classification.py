"""A stage that says what a whole picture shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from app.edge.video.stages.base import ModelFile, picture_of
from app.edge.video.stages.parameters import OF_MODELS, number, predictor_options
from app.inference.errors import ModelUnusable
from app.inference.prediction import Decoder, Picture, Prediction
from app.inference.predictor_factory import open_predictor
from app.kit.errors import ModelmillError
from app.video.model.kinds import StageKind, Type

MAX_TOP = 20


class Classification:
    """The most probable classes, best first; top: so many, one unless given. count_result: {name: probability}."""

    kind: ClassVar[StageKind] = StageKind(
        "classification",
        {"image": Type.IMAGE},
        {"label": Type.LABELS, "prob": Type.SCORES, "count_result": Type.COUNTS},
        parameters=OF_MODELS | {"top"},
        decoders=frozenset({Decoder.AUTO, Decoder.CLASSIFIER}),
    )

    def __init__(self, models: Sequence[ModelFile], parameters: Mapping[str, str]) -> None:
        file = models[0]
        self.top = int(number(parameters, "top", 1, 1, MAX_TOP))
        self.predictor = open_predictor(file.card, file.path, file.twin, predictor_options(parameters, 0))

    @property
    def runtime(self) -> str:
        return self.predictor.described_runtime

    def run(self, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        return self._write_outputs(self.predictor.predict(picture_of(inputs)))

    def run_several(self, several: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any] | ModelmillError]:
        predictions = self.predictor.predict_several([picture_of(inputs) for inputs in several])
        return [each if isinstance(each, ModelmillError) else self._write_outputs(each) for each in predictions]

    def _write_outputs(self, prediction: Prediction) -> Mapping[str, Any]:
        probabilities = prediction.probabilities
        if not probabilities:
            raise ModelUnusable("the model of this stage is no classifier", hint="Use it with the kind detection.")
        best = [int(index) for index in np.argsort(probabilities)[::-1][: self.top]]
        names, shares = [self._name(index) for index in best], [round(probabilities[index], 5) for index in best]
        return {"label": names, "prob": shares, "count_result": dict(zip(names, shares, strict=True))}

    def _name(self, index: int) -> str:
        labels = self.predictor.labels
        return labels[index] if index < len(labels) else str(index)

    @staticmethod
    def draw(picture: Picture, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> Picture:
        return picture
