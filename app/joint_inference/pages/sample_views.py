"""How a hard sample looks to a reader: both models' answers to it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from markupsafe import Markup

from app.inference.prediction import Prediction
from app.joint_inference.model.tally import Sample, Source
from app.kit.web import charts

TOP_CLASSES = 3


@dataclass(frozen=True)
class PredictedClass:
    """A box with the name of its class, or a class of a classifier with its probability and its bar."""

    name: str
    score: float
    bar: Markup


@dataclass(frozen=True)
class AnswerView:
    """One model's answer to a sample."""

    prediction: Prediction
    listed: tuple[PredictedClass, ...]
    """What stands below the picture; its boxes are all of them."""
    further: int
    ms: float | None
    is_final: bool


@dataclass(frozen=True)
class SampleView:
    sample: Sample
    edge: AnswerView
    cloud: AnswerView | None


def sample_view(sample: Sample) -> SampleView:
    is_cloud = sample.source is Source.CLOUD
    cloud = _build_answer(sample, sample.cloud, sample.cloud_ms, is_cloud) if sample.cloud else None
    return SampleView(sample, _build_answer(sample, sample.edge, sample.edge_ms, not is_cloud), cloud)


def _build_answer(sample: Sample, prediction: Prediction, ms: float | None, is_final: bool) -> AnswerView:
    labels = sample.labels
    if prediction.probabilities:
        ranked = sorted(enumerate(prediction.probabilities), key=lambda pair: -pair[1])
        scores = [(name_of(label, labels), score) for label, score in ranked[:TOP_CLASSES]]
        further = 0
    else:
        ids = _read_ids(sample)[: len(prediction.boxes)] if is_final else ()
        numbered = sorted(zip_longest(prediction.boxes, ids), key=lambda pair: -pair[0].score)
        scores = [
            (f"{f'#{track_id} ' if track_id else ''}{box.text or name_of(box.label, labels)}", box.score)
            for box, track_id in numbered[:TOP_CLASSES]
        ]
        further = len(numbered) - len(scores)
    listed = tuple(PredictedClass(name, score, charts.bar(score, 1.0)) for name, score in scores)
    return AnswerView(prediction, listed, further, ms, is_final)


def _read_ids(sample: Sample) -> list[int | None]:
    """Returns the ids of the objects in the final answer. A report may contain anything."""
    ids = sample.extra.get("ids")
    return [one if isinstance(one, int) else None for one in ids] if isinstance(ids, list) else []


def name_of(label: int, labels: Sequence[str]) -> str:
    return labels[label] if 0 <= label < len(labels) and labels[label] else f"#{label}"
