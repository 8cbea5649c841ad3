"""A scheduler's decision: size, rate and encoder of the video, and where each stage runs with which model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from app.kit.text.json_form import JsonDocument
from app.video.errors import BadPlan
from app.video.model.reader import Reader, shorten_value

RESOLUTIONS: Mapping[str, tuple[int, int]] = {
    "240p": (320, 240),
    "360p": (480, 360),
    "480p": (640, 480),
    "720p": (1280, 720),
    "1080p": (1920, 1080),
}
"""Width and height in pixels, smallest first; a picture is scaled to fit and keeps its proportions. The requirement's
four, and 240p, which gives most of the quality for a tenth of the work."""
MAX_FPS = 120.0
MAX_SKIP = 120
MODEL_IDS = (0, 1, 2)
"""Big, middle, small."""


class Encoder(StrEnum):
    JPEG = "JPEG"
    H264 = "H264"


class Role(StrEnum):
    """A node's role as seen from a job: host has its video."""

    HOST = "host"
    EDGE = "edge"
    CLOUD = "cloud"


@dataclass(frozen=True)
class VideoConf(JsonDocument):
    """In a cycle of 1 + ntracking + nskip frames the first is processed, a tracker carries its boxes to the next
    ntracking, and the last nskip are skipped."""

    resolution: str = "480p"
    """A key of RESOLUTIONS."""
    fps: float = 24.0
    """Frames per second taken from the source, at most."""
    nskip: int = 0
    ntracking: int = 0
    encoder: Encoder = Encoder.JPEG

    @property
    def processed_fps(self) -> float:
        """Frames per second that the stages get."""
        return self.fps / (1 + self.nskip + self.ntracking)


@dataclass(frozen=True)
class StagePlace(JsonDocument):
    """Where a stage runs, and with which model."""

    model_id: int
    node_role: Role
    node_ip: str
    """The node's address, in the requirement's form."""
    node: str = ""
    """The node's name."""


@dataclass(frozen=True)
class Plan(JsonDocument):
    """The current plan of a job, until the next one."""

    seq: int
    """Increasing; of two plans the one with the greater number applies."""
    video_conf: VideoConf
    flow_mapping: Mapping[str, StagePlace]
    policy: str = ""


_READER = Reader(BadPlan)
MAX_PLACES = 64


def read_video_conf(data: object) -> VideoConf:
    """Parses an external video_conf.

    Args:
        data: A conf, or {stage: conf} with the same conf for each, as the requirement's function returns it: one
            stream has one size, one rate and one encoder. Missing values get the defaults.

    Raises:
        BadPlan: It has another form; the message names the place.
    """
    document = _READER.mapping(data, "video_conf", most=MAX_PLACES)
    if not document:
        raise _READER.problem("video_conf", "is empty", f"It has {', '.join(VideoConf.__dataclass_fields__)}.")
    if not all(isinstance(each, Mapping) for each in document.values()):
        return _read_conf(document, "video_conf")
    (first, conf), *others = ((stage, _read_conf(each, f"video_conf.{stage[:64]}")) for stage, each in document.items())
    for stage, other in others:
        if other != conf:
            raise _READER.problem(
                f"video_conf.{stage[:64]}",
                f"is another one than {first[:64]}'s",
                "One stream has one size, one rate and one coding: give all stages the same.",
            )
    return conf


def _read_conf(data: object, place: str) -> VideoConf:
    fields = _READER.mapping(data, place, most=MAX_PLACES)
    _READER.only_keys(fields, place, tuple(VideoConf.__dataclass_fields__))
    conf = VideoConf(
        _READER.choice(fields.get("resolution", VideoConf.resolution), f"{place}.resolution", tuple(RESOLUTIONS)),
        _READER.number(fields.get("fps", VideoConf.fps), f"{place}.fps"),
        _READER.integer(fields.get("nskip", VideoConf.nskip), f"{place}.nskip", least=0, most=MAX_SKIP),
        _READER.integer(fields.get("ntracking", VideoConf.ntracking), f"{place}.ntracking", least=0, most=MAX_SKIP),
        Encoder(_READER.choice(fields.get("encoder", VideoConf.encoder.value), f"{place}.encoder", tuple(Encoder))),
    )
    if not 0 < conf.fps <= MAX_FPS:
        raise _READER.problem(
            f"{place}.fps", f"is {shorten_value(conf.fps)}", f"It is above 0 and at most {MAX_FPS:g}."
        )
    return conf


def read_flow_mapping(data: object) -> dict[str, StagePlace]:
    """Reads the places of stages as they come from outside.

    Args:
        data: {stage: {model_id, node_role, node_ip, node}}; `node` may be omitted.

    Raises:
        BadPlan: It has another form.
    """
    mapping = _READER.mapping(data, "flow_mapping", most=MAX_PLACES)
    return {
        _READER.name(stage, "flow_mapping"): _read_place(place, f"flow_mapping.{stage}")
        for stage, place in mapping.items()
    }


def _read_place(data: object, place: str) -> StagePlace:
    fields = _READER.mapping(data, place, most=MAX_PLACES)
    _READER.only_keys(fields, place, tuple(StagePlace.__dataclass_fields__))
    for key in ("model_id", "node_role", "node_ip"):
        if key not in fields:
            raise _READER.problem(f"{place}.{key}", "is missing")
    node = fields.get("node", "")
    return StagePlace(
        _READER.integer(fields["model_id"], f"{place}.model_id", least=MODEL_IDS[0], most=MODEL_IDS[-1]),
        Role(_READER.choice(fields["node_role"], f"{place}.node_role", tuple(Role))),
        _READER.text(fields["node_ip"], f"{place}.node_ip"),
        _READER.text(node, f"{place}.node") if node else "",
    )
