"""The state of the DAG for one frame: the values that stages have returned so far, and how long each has taken.

From each stage only the outputs that another stage or the runner reads are requested, and no picture that can be drawn
here.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.edge.media.picture_sizes import Size, size_of
from app.edge.video.runner.frame_transport import OutgoingPictures
from app.edge.video.runner.resize import ratio_of, scale_values
from app.edge.video.stages.base import TRACK_IDS
from app.edge.video.stages.registry import stage_class
from app.inference.prediction import Picture
from app.inference.region import Crop
from app.video.model.dag import Dag, Reference
from app.video.model.kinds import GENERATORS, RENDER, StageKind, Type
from app.video.model.plan import Plan

DRAWN = "image"
REPORTED = (Type.LABELS, Type.SCORES, Type.KEYPOINTS, Type.MASKS)


@dataclass(frozen=True)
class DagRequirements:
    """The outputs of a DAG's stages that are requested."""

    dag: Dag
    kinds: Mapping[str, StageKind]
    """The kind of each stage."""
    outputs: Mapping[str, frozenset[str]]
    """The outputs requested from each stage, at least one."""
    drawn: frozenset[str]
    """Stages whose picture is drawn in this process."""
    tracked: str
    """The stage whose boxes are tracked between processed frames; empty: there is none."""

    @property
    def picture(self) -> Reference:
        """Returns the reference of the generator's picture."""
        outputs = GENERATORS[self.dag.generator].outputs
        return Reference(self.dag.generator, next(name for name, kind in outputs.items() if kind is Type.IMAGE))

    @property
    def tracked_boxes(self) -> Reference | None:
        """Returns the reference of the boxes that are tracked."""
        return Reference(self.tracked, self.kinds[self.tracked].tracks) if self.tracked else None

    @property
    def track_ids(self) -> Reference:
        """Returns the reference of the ids of the objects in the tracked boxes."""
        return Reference(self.tracked, TRACK_IDS)

    @property
    def image(self) -> Reference | None:
        """Returns the reference of the picture to show."""
        return self.dag.inputs.get(RENDER, {}).get("image")

    @property
    def count(self) -> Reference | None:
        """Returns the reference of the numbers to show."""
        return self.dag.inputs.get(RENDER, {}).get("count")

    @property
    def answers(self) -> str:
        """Returns the stage whose answers are the rows: that of the boxes, otherwise that of the numbers."""
        return self.tracked or (self.count.source if self.count is not None else "")


def needs_of(dag: Dag, kinds: Mapping[str, StageKind]) -> DagRequirements:
    """Determines the requirements. `kinds` has the kind of each stage of the DAG."""
    drawn = frozenset(stage for stage in dag.stages if kinds[stage].draws)
    read: dict[str, set[str]] = {stage: set() for stage in dag.stages}
    for inputs in dag.inputs.values():
        for reference in inputs.values():
            if reference.source in read:
                read[reference.source].add(reference.field)
    outputs = {stage: _choose_outputs(kinds[stage], read[stage]) for stage in dag.stages}
    return DagRequirements(dag, kinds, outputs, drawn, _find_tracked_stage(dag, kinds))


def _find_tracked_stage(dag: Dag, kinds: Mapping[str, StageKind]) -> str:
    """Returns the stage whose boxes are tracked: the first that has some, or the last that says more of another's."""
    tracking = [stage for stage in dag.stages if kinds[stage].tracks]
    refining = [stage for stage in tracking if Type.BOXES in kinds[stage].inputs.values()]
    return next(iter([*refining[-1:], *tracking]), "")


def _choose_outputs(kind: StageKind, read: set[str]) -> frozenset[str]:
    """Returns the outputs to request: drawing needs all, and comparison and tracking read theirs here."""
    outputs = read | {name for name in (kind.compared, kind.tracks) if name}
    if kind.tracks:  # a box is reported with its class, score, key points and mask
        outputs |= {name for name, type_ in kind.outputs.items() if type_ in REPORTED}
    if kind.draws:
        if DRAWN in outputs:
            outputs |= set(kind.outputs)
        outputs -= {DRAWN}
    light = [name for name, type_ in kind.outputs.items() if type_ not in (Type.IMAGE, Type.CLIP)]
    return frozenset(outputs) or frozenset(light[:1]) or frozenset(list(kind.outputs)[:1])


Values = Mapping[Reference, Any]
"""JSON, or OutgoingPictures."""


@dataclass(frozen=True)
class CapturedFrame:
    """A frame that the generator has taken from the source."""

    n_loop: int
    """The number of the frame in the stream, counting omitted frames."""
    picture: Picture
    at: float | None
    """Its time in the source, in seconds; None if it has none."""
    captured: float
    """When it was captured, in monotonic seconds."""
    tracked: bool = False
    """It is not processed: its boxes are the moved boxes of the last processed frame."""
    clip: tuple[Picture, ...] = ()
    """For a frame of a ClipGenerator: all pictures of the clip, its own first."""
    source: Picture | None = None
    """The whole picture if `picture` is a part of it; None: `picture` is the whole."""
    crop: Crop | None = None
    """The position of the picture in `source`."""
    still: bool = False
    """Nothing has moved since the last processed frame, so its answers still apply; `tracked` is True, too."""

    @property
    def source_size(self) -> Size:
        return size_of(self.picture if self.source is None else self.source)


class FrameFailed(Exception):
    """A frame got no result. `is_fault` is True if the stage failed, and False if a host is unreachable."""

    def __init__(self, stage: str, reason: str, *, is_fault: bool = True) -> None:
        super().__init__(f"{stage}: {reason}")
        self.stage, self.reason, self.is_fault = stage, reason, is_fault


@dataclass(frozen=True)
class Timing:
    """The timing of a call of a stage."""

    node: str
    delay_s: float
    """Seconds from the call to its answer."""
    server_s: float
    """Seconds of computing, reported by the host."""
    queue_s: float
    """Seconds of waiting, on the host and in this process."""
    way_s: float = 0.0
    """Seconds on the network."""
    sent: int = 0
    """Size of the request's body in bytes, if it went to another node."""
    is_fallback: bool = False
    """The stage ran on another host than planned."""
    model: object = None
    """Name on the card of the model that was used, as the host tells it."""


@dataclass(frozen=True)
class FrameOutcome:
    """The answers of the stages for a frame."""

    plan: Plan
    size: Size
    """The size of the sent picture."""
    values: Values
    """Boxes in pixels of `size`."""
    timings: Mapping[str, Timing]


@dataclass
class FrameContext:
    """A frame on its way through the DAG. Any number of threads may use it."""

    needs: DagRequirements
    plan: Plan
    """The plan, which applies to the whole frame."""
    name: str
    """The name under which hosts keep the frame's pictures."""
    size: Size
    """The size of the picture that is sent."""
    values: dict[Reference, Any] = field(default_factory=dict)
    timings: dict[str, Timing] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def inputs_of(self, stage: str) -> dict[str, Any]:
        return {name: self.value(reference) for name, reference in self.needs.dag.inputs.get(stage, {}).items()}

    def value(self, reference: Reference) -> Any:
        """Returns the value. A picture that can be drawn here is drawn at the first request."""
        with self._lock:
            if reference not in self.values and reference.source in self.needs.drawn and reference.field == DRAWN:
                picture = render(self.needs, self.values, reference, None, self.size)
                self.values[reference] = OutgoingPictures(str(reference), picture)
            return self.values[reference]

    def answered(self, stage: str, outputs: Mapping[str, Any], timing: Timing) -> None:
        with self._lock:
            self.timings[stage] = timing
            for name, value in outputs.items():
                self.values[Reference(stage, name)] = value

    def outcome(self) -> FrameOutcome:
        return FrameOutcome(self.plan, self.size, self.values, self.timings)


def render(needs: DagRequirements, values: Values, image: Reference, source: Picture | None, size: Size) -> Picture:
    """Returns the referenced picture with the answers drawn on it.

    Args:
        needs: the requirements of the DAG.
        values: the answers; boxes are in pixels of `size`.
        image: the reference.
        source: the picture to draw on, in its own pixels; None: the sent picture.
        size: the size of the sent picture.
    """
    if image == needs.picture and source is not None:
        return source
    if image.source not in needs.drawn or image.field != DRAWN or image in values:
        return _read_picture(values[image])
    inputs = needs.dag.inputs[image.source]
    base = render(needs, values, inputs[DRAWN], source, size)
    kind = needs.kinds[image.source]
    ratio = ratio_of(size, size_of(base))
    read = {name: values[ref] for name, ref in inputs.items() if name != DRAWN and ref in values}
    outputs = {
        name: values[ref] for name in kind.outputs if (ref := Reference(image.source, name)) in values and name != DRAWN
    }
    if needs.track_ids in values and (image.source == needs.tracked or needs.tracked_boxes in inputs.values()):
        outputs[TRACK_IDS] = values[needs.track_ids]
    return stage_class(kind.name).draw(
        base, scale_values(read, kind.inputs, ratio), scale_values(outputs, kind.outputs, ratio)
    )


def counts_of(needs: DagRequirements, values: Values) -> dict[str, Any]:
    """Returns the numbers to show; empty if there are none."""
    counts = values.get(needs.count) if needs.count is not None else None
    return dict(counts) if isinstance(counts, Mapping) else {}


def _read_picture(value: Any) -> Picture:
    if not isinstance(value, OutgoingPictures):
        raise TypeError("what is to be shown is no picture")
    return value.picture
