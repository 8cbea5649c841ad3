"""What a bundled worker's parameters mean. Pure; the web checks them with this, too, before anything is started."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from app.inference.prediction import Decoder, PredictorOptions
from app.joint_inference.hard_examples import BadParameter, HardExampleAlgorithm, make, needs_prediction
from app.joint_inference.hard_examples.parameters import ParameterReader, number_of, refused
from app.joint_inference.model.resource import Role, Specification

COLORS = ("RGB", "BGR", "GRAY", "auto")
RESIZES = ("stretch", "letterbox")
MAX_CHANNELS = 4
MAX_SIDE = 8192


class MiningMode(StrEnum):
    INFERENCE_THEN_MINING = "inference-then-mining"
    MINING_THEN_INFERENCE = "mining-then-inference"
    """The algorithm decides before the small model runs, which then runs for easy samples and as the fallback only."""


class OnFull(StrEnum):
    """What a stream does while too many of its hard samples wait for the cloud."""

    AUTO = "auto"
    """Wait, unless the source is live."""
    WAIT = "wait"
    DROP = "drop"
    """The least hard keeps the edge's answer."""


@dataclass(frozen=True)
class CloudOptions:
    """labels: names of the classes, by index; empty: the model's own."""

    predictor: PredictorOptions = field(default_factory=PredictorOptions)
    labels: tuple[str, ...] = ()


@dataclass(frozen=True)
class EdgeOptions:
    """source: what app.inference.sources opens; empty: it serves and runs no stream. fps: 0: the source's own.

    max_upload_ratio: of the inferences, so many may go up. deadline_s: from the moment a sample was found hard to the
    cloud's answer. breaker_errors: so many failures in a row open the breaker; breaker_pause_s later the cloud is asked
    whether it is back.
    """

    predictor: PredictorOptions = field(default_factory=PredictorOptions)
    labels: tuple[str, ...] = ()
    source: str = ""
    fps: float = 0.0
    loop: bool = False
    max_upload_ratio: float = 1.0
    deadline_s: float = 1.0
    queue_size: int = 8
    senders: int = 2
    jpeg_quality: int = 85
    breaker_errors: int = 3
    breaker_pause_s: float = 5.0
    mining_mode: MiningMode = MiningMode.INFERENCE_THEN_MINING
    on_full: OnFull = OnFull.AUTO

    def waits(self, *, is_live: bool) -> bool:
        """Does a stream of such a source wait for the cloud?"""
        return self.on_full is OnFull.WAIT or (self.on_full is OnFull.AUTO and not is_live)


def worker_options(role: Role, parameters: Mapping[str, str]) -> EdgeOptions | CloudOptions:
    """Raises BadParameter. Unknown keys are left to others."""
    return edge_options(parameters) if role is Role.EDGE else cloud_options(parameters)


def cloud_options(parameters: Mapping[str, str]) -> CloudOptions:
    given = ParameterReader(parameters)
    return CloudOptions(_predictor(given), _labels(given))


def edge_options(parameters: Mapping[str, str]) -> EdgeOptions:
    given = ParameterReader(parameters)
    return EdgeOptions(
        predictor=_predictor(given),
        labels=_labels(given),
        source=given.text("source"),
        fps=given.number("fps", 0, least=0, most=1000),
        loop=given.flag("loop", False),
        max_upload_ratio=given.share("max_upload_ratio", 1.0),
        deadline_s=given.number("deadline_ms", 1000, least=1, most=600_000) / 1000,
        queue_size=given.whole("queue_size", 8, least=1, most=10_000),
        senders=given.whole("senders", 2, least=1, most=16),
        jpeg_quality=given.whole("jpeg_quality", 85, least=1, most=95),
        breaker_errors=given.whole("breaker_errors", 3, least=1, most=1000),
        breaker_pause_s=given.number("breaker_pause_s", 5, least=0.05, most=3600),
        mining_mode=given.choice("mining_mode", MiningMode.INFERENCE_THEN_MINING, tuple(MiningMode)),
        on_full=given.choice("on_full", OnFull.AUTO, tuple(OnFull)),
    )


def algorithm_of(specification: Specification) -> HardExampleAlgorithm:
    """The one of the service, if it goes with how the edge worker mines. Raises UnknownAlgorithm, BadParameter."""
    algorithm = make(specification.hard_example, specification.hard_example_parameters)
    options = edge_options(specification.edge.parameters)
    if options.mining_mode is MiningMode.MINING_THEN_INFERENCE and needs_prediction(algorithm):
        raise BadParameter(
            f"{specification.hard_example} judges what the small model answered: it cannot decide before.",
            hint="Use mining_mode inference-then-mining.",
            detail={"key": "mining_mode"},
        )
    return algorithm


def _predictor(given: ParameterReader) -> PredictorOptions:
    return PredictorOptions(
        score_threshold=given.share("score_threshold", 0.6),
        candidate_threshold=given.share("cand_threshold", 0.2),
        nms_threshold=given.share("nms_threshold", 0.3),
        threads=given.whole("threads", 1, least=1, most=64),
        decoder=given.choice("decoder", Decoder.AUTO, tuple(Decoder)),
        preprocess=_preprocess(given),
        input_size=_size(given),
    )


def _size(given: ParameterReader) -> tuple[int, int]:
    """Width and height, as 320x240; zeros when the model's decoder is to say."""
    text = given.text("input_size")
    words = text.lower().split("x")
    if not text:
        return 0, 0
    if len(words) != 2 or not all(word.isdecimal() and 0 < int(word) <= MAX_SIDE for word in words):
        raise refused("input_size", text, f"width and height, as 320x240, up to {MAX_SIDE}")
    return int(words[0]), int(words[1])


def _preprocess(given: ParameterReader) -> dict[str, Any]:
    """Only what was given: the rest is the model's own."""
    found: dict[str, Any] = {}
    if given.text("color"):
        found["color"] = given.choice("color", "auto", COLORS)
    if given.text("resize"):
        found["resize"] = given.choice("resize", "stretch", RESIZES)
    if given.text("scale"):
        found["scale"] = given.number("scale", 1)
    if given.text("mean"):
        found["mean"] = _numbers(given, "mean")
    if given.text("std"):
        found["std"] = _numbers(given, "std")
        if min(found["std"]) <= 0:
            raise refused("std", given.text("std"), "of numbers above 0")
    return found


def _numbers(given: ParameterReader, key: str) -> tuple[float, ...]:
    """One number, or one per channel: `127` or `123.7, 116.3, 103.5`, with or without brackets."""
    words = given.text(key).strip("[]() ").replace(",", " ").split()
    if not 1 <= len(words) <= MAX_CHANNELS:
        raise refused(key, given.text(key), f"1 to {MAX_CHANNELS} numbers")
    return tuple(number_of(key, word) for word in words)


def _labels(given: ParameterReader) -> tuple[str, ...]:
    """Between commas, or a JSON list."""
    text = given.text("labels")
    if not text.startswith("["):
        return tuple(label.strip() for label in text.split(",")) if text else ()
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, list) or not all(isinstance(label, str) for label in found):
        raise refused("labels", text, "names between commas, or a JSON list of them")
    return tuple(found)
