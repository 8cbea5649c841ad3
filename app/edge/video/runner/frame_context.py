"""The state of the DAG for one frame: the values that stages have returned so far, and how long each has taken.

From each stage only the outputs that another stage or the runner reads are requested, and no picture that can be drawn
here.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.edge.video.runner.frame_transport import OutgoingPictures
from app.edge.video.runner.resize import Size, moved, ratio_of, size_of
from app.edge.video.stages.registry import stage_class
from app.inference.prediction import Picture
from app.inference.region import Crop
from app.video.model.dag import Dag, Reference
from app.video.model.kinds import GENERATORS, RENDER, StageKind, Type
from app.video.model.plan import Plan

DRAWN = "image"


@dataclass(frozen=True)
class DagRequirements:
    """What of a DAG's answers is worth asking for."""

    dag: Dag
    kinds: Mapping[str, StageKind]
    """Of each stage."""
    outputs: Mapping[str, frozenset[str]]
    """Of each stage those to be asked for, at least one."""
    drawn: frozenset[str]
    """Stages whose picture is drawn here."""
    tracked: str
    """The stage whose boxes are tracked between processed frames; empty: there is none."""

    @property
    def picture(self) -> Reference:
        """The generator's picture."""
        outputs = GENERATORS[self.dag.generator].outputs
        return Reference(self.dag.generator, next(name for name, kind in outputs.items() if kind is Type.IMAGE))

    @property
    def image(self) -> Reference | None:
        """The picture that is to be shown."""
        return self.dag.inputs.get(RENDER, {}).get("image")

    @property
    def count(self) -> Reference | None:
        """The numbers that are to be shown."""
        return self.dag.inputs.get(RENDER, {}).get("count")


def needs_of(dag: Dag, kinds: Mapping[str, StageKind]) -> DagRequirements:
    """kinds: of each stage of the DAG."""
    drawn = frozenset(stage for stage in dag.stages if kinds[stage].draws)
    read: dict[str, set[str]] = {stage: set() for stage in dag.stages}
    for inputs in dag.inputs.values():
        for reference in inputs.values():
            if reference.source in read:
                read[reference.source].add(reference.field)
    outputs = {stage: _outputs(kinds[stage], read[stage]) for stage in dag.stages}
    tracked = next((stage for stage in dag.stages if kinds[stage].tracks), "")
    return DagRequirements(dag, kinds, outputs, drawn, tracked)


def _outputs(kind: StageKind, read: set[str]) -> frozenset[str]:
    """Drawing needs all outputs; what is compared and tracked is read here."""
    outputs = read | {name for name in (kind.compared, kind.tracks) if name}
    if kind.tracks:  # a box is told with its class and score
        outputs |= {name for name, type_ in kind.outputs.items() if type_ in (Type.LABELS, Type.SCORES)}
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
    """Counts the frames of the stream, those omitted among them."""
    picture: Picture
    at: float | None
    """Its time in the source, seconds; None if it has none."""
    captured: float
    """When it was taken, of the monotonic clock."""
    tracked: bool = False
    """It is not processed: its boxes are those of the last processed frame, moved."""
    clip: tuple[Picture, ...] = ()
    """Of a ClipGenerator's frame all pictures of the clip, its own first."""
    source: Picture | None = None
    """The whole picture, of which `picture` is a part; None: it is the whole."""
    crop: Crop | None = None
    """Where in `source` the picture lies."""
    still: bool = False
    """Nothing has moved since the last processed frame, whose answers hold on; `tracked` is True, too."""

    @property
    def source_size(self) -> Size:
        return size_of(self.picture if self.source is None else self.source)


class FrameFailed(Exception):
    """A frame that got no result. is_fault: of the stage, not of a host that is not there just now."""

    def __init__(self, stage: str, reason: str, *, is_fault: bool = True) -> None:
        super().__init__(f"{stage}: {reason}")
        self.stage, self.reason, self.is_fault = stage, reason, is_fault


@dataclass(frozen=True)
class Timing:
    """Of a stage's call."""

    node: str
    delay_s: float
    """From the call to its answer."""
    server_s: float
    """Computing, as the host says."""
    queue_s: float
    """Waiting, there and here."""
    way_s: float = 0.0
    """On the network."""
    sent: int = 0
    """Bytes of its body, when it went to another node."""
    is_fallback: bool = False
    """It ran elsewhere than planned."""


@dataclass(frozen=True)
class Outcome:
    """What the stages have answered for a frame."""

    plan: Plan
    size: Size
    """Of the picture that was sent."""
    values: Values
    """Boxes in pixels of `size`."""
    timings: Mapping[str, Timing]


@dataclass
class FrameContext:
    """A frame on its way through the DAG. For any number of threads."""

    needs: DagRequirements
    plan: Plan
    """In force for the whole of it."""
    name: str
    """Of the frame, under which hosts keep its pictures."""
    size: Size
    """Of the picture that is sent."""
    values: dict[Reference, Any] = field(default_factory=dict)
    timings: dict[str, Timing] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def inputs_of(self, stage: str) -> dict[str, Any]:
        return {name: self.value(reference) for name, reference in self.needs.dag.inputs.get(stage, {}).items()}

    def value(self, reference: Reference) -> Any:
        """A picture that can be drawn here is drawn when it is first asked for."""
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

    def outcome(self) -> Outcome:
        return Outcome(self.plan, self.size, self.values, self.timings)


def render(needs: DagRequirements, values: Values, image: Reference, source: Picture | None, size: Size) -> Picture:
    """The picture that a reference names, with the answers drawn on it.

    Args:
        needs: Of the DAG.
        values: Boxes in pixels of `size`.
        image: The reference.
        source: Drawn on, in its own pixels, instead of the picture that was sent; None: that one.
        size: Of the picture that was sent.
    """
    if image == needs.picture and source is not None:
        return source
    if image.source not in needs.drawn or image.field != DRAWN or image in values:
        return _sent(values[image])
    inputs = needs.dag.inputs[image.source]
    base = render(needs, values, inputs[DRAWN], source, size)
    kind = needs.kinds[image.source]
    ratio = ratio_of(size, size_of(base))
    read = {name: values[ref] for name, ref in inputs.items() if name != DRAWN and ref in values}
    outputs = {
        name: values[ref] for name in kind.outputs if (ref := Reference(image.source, name)) in values and name != DRAWN
    }
    return stage_class(kind.name).draw(base, moved(read, kind.inputs, ratio), moved(outputs, kind.outputs, ratio))


def counts_of(needs: DagRequirements, values: Values) -> dict[str, Any]:
    """The numbers that are to be shown; empty if there are none."""
    counts = values.get(needs.count) if needs.count is not None else None
    return dict(counts) if isinstance(counts, Mapping) else {}


def _sent(value: Any) -> Picture:
    if not isinstance(value, OutgoingPictures):
        raise TypeError("what is to be shown is no picture")
    return value.picture
