"""What one frame needs of the DAG, and what of it is there: the values that stages have answered so far, and how long
each has taken.

Of each stage only the outputs are asked for that another stage or the runner reads, and no picture that can be drawn
here.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.edge.video.runner.frame_transport import Sendable
from app.edge.video.runner.resize import Size, moved, ratio_of, size_of
from app.edge.video.stages.registry import stage_class
from app.inference.prediction import Picture
from app.video.model.dag import Dag, Reference
from app.video.model.kinds import GENERATORS, RENDER, StageKind, Type
from app.video.model.plan import Plan

DRAWN = "image"


@dataclass(frozen=True)
class DagRequirements:
    """kinds: of each stage. wanted: stage → outputs to be asked for, never none. drawn: stages whose picture is drawn
    here. tracked: the stage whose boxes are carried on between processed frames; empty: none."""

    dag: Dag
    kinds: Mapping[str, StageKind]
    wanted: Mapping[str, frozenset[str]]
    drawn: frozenset[str]
    tracked: str

    @property
    def picture(self) -> Reference:
        """The generator's picture."""
        outputs = GENERATORS[self.dag.generator].outputs
        return Reference(self.dag.generator, next(name for name, kind in outputs.items() if kind is Type.IMAGE))

    @property
    def image(self) -> Reference | None:
        return self.dag.inputs.get(RENDER, {}).get("image")

    @property
    def count(self) -> Reference | None:
        return self.dag.inputs.get(RENDER, {}).get("count")


def needs_of(dag: Dag, kinds: Mapping[str, StageKind]) -> DagRequirements:
    """kinds: of each stage of the DAG."""
    drawn = frozenset(stage for stage in dag.stages if kinds[stage].draws)
    read: dict[str, set[str]] = {stage: set() for stage in dag.stages}
    for inputs in dag.inputs.values():
        for reference in inputs.values():
            if reference.source in read:
                read[reference.source].add(reference.field)
    wanted = {stage: _wanted(kinds[stage], read[stage]) for stage in dag.stages}
    return DagRequirements(dag, kinds, wanted, drawn, _tracked(dag, kinds))


def _wanted(kind: StageKind, read: set[str]) -> frozenset[str]:
    """Whoever draws needs all that was found; what is compared and tracked is read here."""
    found = read | {name for name in (kind.compared, kind.tracks) if name}
    if kind.draws:
        if DRAWN in found:
            found |= set(kind.outputs)
        found -= {DRAWN}
    light = [name for name, type_ in kind.outputs.items() if type_ not in (Type.IMAGE, Type.CLIP)]
    return frozenset(found) or frozenset(light[:1]) or frozenset(list(kind.outputs)[:1])


def _tracked(dag: Dag, kinds: Mapping[str, StageKind]) -> str:
    return next((stage for stage in dag.stages if kinds[stage].tracks), "")


Values = Mapping[Reference, Any]
"""JSON, or a Sendable of a picture."""


@dataclass(frozen=True)
class Taken:
    """A frame. n_loop: counts the frames of the stream, those left out among them. at: its time in the source, seconds,
    None where it has none. captured: when it was taken, of the monotonic clock. clip: of a ClipGenerator's frame all
    pictures of the clip, itself first."""

    n_loop: int
    picture: Picture
    at: float | None
    captured: float
    tracked: bool = False
    clip: tuple[Picture, ...] = ()


class FrameFailed(Exception):
    """A frame that got no result. is_fault: of the stage, not of a host that is not there just now."""

    def __init__(self, stage: str, reason: str, *, is_fault: bool = True) -> None:
        super().__init__(f"{stage}: {reason}")
        self.stage, self.reason, self.is_fault = stage, reason, is_fault


@dataclass(frozen=True)
class Timing:
    """Of a stage's call. sent: bytes of its body, when it went to another node; way_s: the time of the network."""

    node: str
    delay_s: float
    server_s: float
    queue_s: float
    way_s: float = 0.0
    sent: int = 0
    is_fallback: bool = False


@dataclass(frozen=True)
class Outcome:
    """values: boxes in pixels of `size`, the picture that was sent."""

    plan: Plan
    size: Size
    values: Values
    timings: Mapping[str, Timing]


@dataclass
class FrameContext:
    """plan: in force for the whole of it. name: of the frame, under which hosts keep its pictures."""

    needs: DagRequirements
    plan: Plan
    name: str
    size: Size
    values: dict[Reference, Any] = field(default_factory=dict)
    timings: dict[str, Timing] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def inputs_of(self, stage: str) -> dict[str, Any]:
        return {name: self.value(reference) for name, reference in self.needs.dag.inputs.get(stage, {}).items()}

    def value(self, reference: Reference) -> Any:
        """A picture that can be drawn here is drawn when it is first asked for."""
        with self._lock:
            if reference not in self.values and reference.source in self.needs.drawn and reference.field == DRAWN:
                picture = rendered(self.needs, self.values, reference, None, self.size)
                self.values[reference] = Sendable(str(reference), picture)
            return self.values[reference]

    def found(self, stage: str, outputs: Mapping[str, Any], timing: Timing) -> None:
        with self._lock:
            self.timings[stage] = timing
            for name, value in outputs.items():
                self.values[Reference(stage, name)] = value

    def outcome(self) -> Outcome:
        return Outcome(self.plan, self.size, self.values, self.timings)


def rendered(needs: DagRequirements, values: Values, image: Reference, source: Picture | None, size: Size) -> Picture:
    """The picture that a reference names, with what was found drawn on it. source: to draw on that of the source, in
    its pixels, instead of on the one of `size` that was sent."""
    if image == needs.picture and source is not None:
        return source
    if image.source not in needs.drawn or image.field != DRAWN or image in values:
        return _sent(values[image])
    inputs = needs.dag.inputs[image.source]
    base = rendered(needs, values, inputs[DRAWN], source, size)
    kind = needs.kinds[image.source]
    ratio = ratio_of(size, size_of(base))
    given = {name: values[ref] for name, ref in inputs.items() if name != DRAWN and ref in values}
    outputs = {
        name: values[ref] for name in kind.outputs if (ref := Reference(image.source, name)) in values and name != DRAWN
    }
    return stage_class(kind.name).draw(base, moved(given, kind.inputs, ratio), moved(outputs, kind.outputs, ratio))


def counted(needs: DagRequirements, values: Values) -> dict[str, Any]:
    """What Render is to show as numbers; empty where it is not there or none."""
    reference = needs.dag.inputs.get(RENDER, {}).get("count")
    found = values.get(reference) if reference is not None else None
    return dict(found) if isinstance(found, Mapping) else {}


def _sent(value: Any) -> Picture:
    if not isinstance(value, Sendable):
        raise TypeError("what is to be shown is no picture")
    return value.picture
