"""The parameters of the bundled workers. Pure; the web server also validates them with this before anything is
started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from app.inference.broadcast import MAX_FPS, MAX_PATH, MAX_WIDTH, MIN_FPS, MIN_WIDTH, PATH, Broadcast
from app.inference.frame_gate import EVERY_FRAME, STILL_S, FrameGate
from app.inference.installed_decoders import list_installed_decoders
from app.inference.prediction import Decoder
from app.inference.predictor_options import BatchOptions, ExecutionProvider, PredictorOptions
from app.inference.region import Region, read_region
from app.joint_inference.hard_examples import BadParameter, HardExampleAlgorithm, make, needs_prediction
from app.joint_inference.hard_examples.parameters import ParameterReader, make_bad_parameter, number_of
from app.joint_inference.model.resource import Role, Specification
from app.joint_inference.model.sources import BROADCAST, NamedSource, read_sources
from app.joint_inference.model.tally import RowChoice
from app.kit.text.json_values import JsonObject
from app.kit.text.untrusted_json import UnreadableJson, read_json

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
    """The parameters of a cloud worker."""

    predictor: PredictorOptions = field(default_factory=PredictorOptions)
    labels: tuple[str, ...] = ()
    """Names of the classes, by index; empty: the model's own."""


@dataclass(frozen=True)
class EdgeOptions:
    """The parameters of an edge worker."""

    predictor: PredictorOptions = field(default_factory=PredictorOptions)
    labels: tuple[str, ...] = ()
    """Names of the classes, by index; empty: the model's own."""
    sources: tuple[NamedSource, ...] = ()
    """What `app.inference.sources` opens; none: it answers requests only."""
    fps: float = 0.0
    """Of the stream; 0: the source's own."""
    loop: bool = False
    max_upload_ratio: float = 1.0
    """The share of the inferences that may go up."""
    max_bytes_per_s: float = 0.0
    """Bytes of uploads per second; 0 for no limit."""
    max_bytes_per_month: float = 0.0
    """Bytes of uploads per calendar month in UTC; 0 for no limit."""
    deadline_s: float = 1.0
    """From the verdict on a sample to the cloud's answer."""
    queue_size: int = 8
    senders: int = 2
    jpeg_quality: int = 85
    breaker_errors: int = 3
    """How many failures in a row open the circuit breaker."""
    breaker_pause_s: float = 5.0
    """How long after that the cloud is probed."""
    mining_mode: MiningMode = MiningMode.INFERENCE_THEN_MINING
    on_full: OnFull = OnFull.AUTO
    gate: FrameGate = EVERY_FRAME
    """Of the stream."""
    collect: str = ""
    """Folder of the data home in which hard samples are kept, for the web; empty: none."""
    rows: RowChoice = RowChoice.ALL
    """Which samples leave a row of what was answered."""
    broadcast: Broadcast | None = None
    """Of the streams, to the media server of the node; None: none."""

    def waits(self, *, is_live: bool) -> bool:
        """Does a stream of such a source wait for the cloud?"""
        return self.on_full is OnFull.WAIT or (self.on_full is OnFull.AUTO and not is_live)


def worker_options(role: Role, parameters: Mapping[str, str]) -> EdgeOptions | CloudOptions:
    """Reads the parameters that this role knows; others are left alone.

    Raises:
        BadParameter: One has a bad value.
    """
    return edge_options(parameters) if role is Role.EDGE else cloud_options(parameters)


def cloud_options(parameters: Mapping[str, str]) -> CloudOptions:
    reader = ParameterReader(parameters)
    predictor = _read_predictor_options(reader)
    batching = BatchOptions(
        reader.whole("batch", 1, least=1, most=64),
        reader.number("batch_wait_ms", 5, least=0, most=1000) / 1000,
        calls=predictor.threads,
    )
    return CloudOptions(replace(predictor, batching=batching), _read_labels(reader))


def edge_options(parameters: Mapping[str, str]) -> EdgeOptions:
    reader = ParameterReader(parameters)
    return EdgeOptions(
        predictor=_read_predictor_options(reader),
        labels=_read_labels(reader),
        sources=_read_sources(reader),
        fps=reader.number("fps", 0, least=0, most=1000),
        loop=reader.flag("loop", False),
        max_upload_ratio=reader.share("max_upload_ratio", 1.0),
        max_bytes_per_s=reader.number("max_bytes_per_s", 0, least=0),
        max_bytes_per_month=reader.number("max_bytes_per_month", 0, least=0),
        deadline_s=reader.number("deadline_ms", 1000, least=1, most=600_000) / 1000,
        queue_size=reader.whole("queue_size", 8, least=1, most=10_000),
        senders=reader.whole("senders", 2, least=1, most=16),
        jpeg_quality=reader.whole("jpeg_quality", 85, least=1, most=95),
        breaker_errors=reader.whole("breaker_errors", 3, least=1, most=1000),
        breaker_pause_s=reader.number("breaker_pause_s", 5, least=0.05, most=3600),
        mining_mode=reader.choice("mining_mode", MiningMode.INFERENCE_THEN_MINING, tuple(MiningMode)),
        on_full=reader.choice("on_full", OnFull.AUTO, tuple(OnFull)),
        gate=FrameGate(
            _read_region(reader), reader.share("motion", 0.0), reader.number("still_s", STILL_S, least=0.1, most=86_400)
        ),
        collect=reader.text("collect"),
        rows=reader.choice("rows", RowChoice.ALL, tuple(RowChoice)),
        broadcast=_read_broadcast(reader),
    )


def algorithm_of(specification: Specification) -> HardExampleAlgorithm:
    """Returns the algorithm of the service.

    Raises:
        UnknownAlgorithm: There is none of this name.
        BadParameter: It does not go with how the edge worker mines.
    """
    algorithm = make(specification.hard_example, specification.hard_example_parameters)
    options = edge_options(specification.edge.parameters)
    if options.mining_mode is MiningMode.MINING_THEN_INFERENCE and needs_prediction(algorithm):
        raise BadParameter(
            f"{specification.hard_example} judges what the small model answered: it cannot decide before.",
            hint="Use mining_mode inference-then-mining.",
            detail={"key": "mining_mode"},
        )
    return algorithm


def _read_predictor_options(reader: ParameterReader) -> PredictorOptions:
    return PredictorOptions(
        score_threshold=reader.share("score_threshold", 0.6),
        candidate_threshold=reader.share("cand_threshold", 0.2),
        nms_threshold=reader.share("nms_threshold", 0.3),
        threads=reader.whole("threads", 1, least=1, most=64),
        provider=reader.choice("provider", ExecutionProvider.AUTO, tuple(ExecutionProvider)),
        decoder=reader.choice("decoder", Decoder.AUTO, list_installed_decoders()),
        preprocess=_read_preprocess(reader),
        input_size=_read_size(reader),
        classes=_read_names(reader, "classes"),
    )


def _read_size(reader: ParameterReader) -> tuple[int, int]:
    """Width and height, as 320x240; zeros when the model's decoder is to say."""
    text = reader.text("input_size")
    words = text.lower().split("x")
    if not text:
        return 0, 0
    if len(words) != 2 or not all(word.isdecimal() and 0 < int(word) <= MAX_SIDE for word in words):
        raise make_bad_parameter("input_size", text, f"width and height, as 320x240, up to {MAX_SIDE}")
    return int(words[0]), int(words[1])


def _read_region(reader: ParameterReader) -> Region | None:
    text = reader.text("region")
    try:
        return read_region(text) if text else None
    except ValueError as error:
        raise make_bad_parameter("region", text, str(error)) from None


def _read_sources(reader: ParameterReader) -> tuple[NamedSource, ...]:
    text = reader.text("source")
    try:
        return read_sources(text) if text else ()
    except ValueError as error:
        raise make_bad_parameter("source", text, str(error)) from None


def _read_broadcast(reader: ParameterReader) -> Broadcast | None:
    path = reader.text(BROADCAST)
    fps = reader.number("broadcast_fps", Broadcast.fps, least=MIN_FPS, most=MAX_FPS)
    width = reader.whole("broadcast_width", Broadcast.width, least=MIN_WIDTH, most=MAX_WIDTH)
    if not path:
        return None
    if len(path) > MAX_PATH or PATH.fullmatch(path) is None:
        raise make_bad_parameter(BROADCAST, path, "a name of letters, digits, '.', '_' and '-', with '/' between parts")
    if not reader.text("source"):
        raise make_bad_parameter(BROADCAST, path, "together with a source, whose pictures are broadcast")
    return Broadcast(path, fps, width)


def _read_preprocess(reader: ParameterReader) -> JsonObject:
    """Only what was given: the rest is the model's own."""
    options: JsonObject = {}
    if reader.text("color"):
        options["color"] = reader.choice("color", "auto", COLORS)
    if reader.text("resize"):
        options["resize"] = reader.choice("resize", "stretch", RESIZES)
    if reader.text("scale"):
        options["scale"] = reader.number("scale", 1)
    if reader.text("mean"):
        options["mean"] = _read_numbers(reader, "mean")
    if reader.text("std"):
        options["std"] = _read_numbers(reader, "std")
        if min(options["std"]) <= 0:
            raise make_bad_parameter("std", reader.text("std"), "of numbers above 0")
    return options


def _read_numbers(reader: ParameterReader, key: str) -> tuple[float, ...]:
    """One number, or one per channel: `127` or `123.7, 116.3, 103.5`, with or without brackets."""
    words = reader.text(key).strip("[]() ").replace(",", " ").split()
    if not 1 <= len(words) <= MAX_CHANNELS:
        raise make_bad_parameter(key, reader.text(key), f"1 to {MAX_CHANNELS} numbers")
    return tuple(number_of(key, word) for word in words)


def _read_labels(reader: ParameterReader) -> tuple[str, ...]:
    return _read_names(reader, "labels")


def _read_names(reader: ParameterReader, key: str) -> tuple[str, ...]:
    """Between commas, or a JSON list."""
    text = reader.text(key)
    if not text.startswith("["):
        return tuple(label.strip() for label in text.split(",")) if text else ()
    try:
        labels = read_json(text)
    except UnreadableJson:
        labels = None
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise make_bad_parameter(key, text, "names between commas, or a JSON list of them")
    return tuple(labels)
