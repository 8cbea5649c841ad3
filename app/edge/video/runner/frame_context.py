"""One frame on its way through the DAG: the values that stages have found so far, and how long each has taken."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.edge.video.runner.dag_requirements import DRAWN, DagRequirements
from app.edge.video.runner.frame_transport import Sendable
from app.edge.video.runner.resize import Size, moved, ratio_of, size_of
from app.edge.video.stages.registry import stage_class
from app.inference.prediction import Picture
from app.video.model.dag import Reference
from app.video.model.kinds import RENDER
from app.video.model.plan import Plan

Values = Mapping[Reference, Any]
"""JSON, or a Sendable of a picture."""


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
