"""Runs both models over a set of samples, in a separate process, because models and samples belong to users."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from app.inference.errors import InferenceFailed
from app.inference.model_card import MODEL_CARD
from app.inference.predictor import Predictor
from app.inference.predictor_factory import open_predictor
from app.inference.predictor_options import ExecutionProvider
from app.joint_inference.calibration.model import MAX_SAMPLES
from app.joint_inference.calibration.predictions import SamplePredictions
from app.joint_inference.calibration.samples import WANTED, CalibrationSample, count_of, read_samples
from app.joint_inference.calibration.sweep import SWEEP, sweep
from app.joint_inference.errors import BadSamples
from app.joint_inference.hard_examples import load_algorithms, make
from app.joint_inference.model.resource import Role
from app.joint_inference.worker_options import worker_options
from app.kit.text.json_values import JsonObject

Progress = Callable[..., None]


def run(request: Mapping[str, Any], progress: Progress) -> JsonObject:
    """Leaves answers.json and sweep.json in `into`.

    Args:
        request: {samples, into, edge, cloud}, each side {card, model, twin, parameters}.

    Raises:
        BadSamples: They cannot be read, or no sample can be used.
        BadParameter: A side has a bad parameter.
        ModelUnusable: A model cannot be opened, or its outputs cannot be read.
    """
    into = Path(request["into"])
    edge, cloud = (_open(role, request[role.value]) for role in Role)
    path = Path(request["samples"])
    expected = count_of(path) or MAX_SAMPLES
    answers, skipped = [], 0
    for number, sample in enumerate(read_samples(path, edge.labels or cloud.labels), 1):
        answer = _predict_sample(sample, edge, cloud)
        if answer is None:
            skipped += 1
        else:
            answers.append(answer)
        progress(number / (expected + 1))
    if not answers:
        raise BadSamples(f"None of the {skipped} samples could be read or understood by both models.", hint=WANTED)
    names = [entry.name for entry in load_algorithms().values() if entry.algorithm is not None]
    result = sweep(answers, make, names, skipped=skipped)
    (into / "answers.json").write_text(json.dumps({"answers": [answer.to_json() for answer in answers]}))
    (into / "sweep.json").write_text(json.dumps(SWEEP.write(result)))
    return {"samples": len(answers), "skipped": skipped}


def _predict_sample(sample: CalibrationSample, edge: Predictor, cloud: Predictor) -> SamplePredictions | None:
    if sample.picture is None:
        return None
    try:
        boxes = sample.truth.boxes
        truth = sample.truth if boxes is None else replace(sample.truth, boxes=edge.counted(boxes))
        return SamplePredictions(sample.name, edge.predict(sample.picture), cloud.predict(sample.picture), truth)
    except InferenceFailed:  # of a size, or with channels, that a model does not accept
        return None


def _open(role: Role, side: Mapping[str, Any]) -> Predictor:
    options = worker_options(role, side["parameters"]).predictor
    options = replace(options, provider=ExecutionProvider.CPU)  # a sandbox reaches no device
    twin = Path(side["twin"]) if side["twin"] else None
    return open_predictor(MODEL_CARD.read(side["card"]), Path(side["model"]), twin, options)
