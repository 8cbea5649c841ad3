"""What of a DAG is worth asking for: of each stage only the outputs that somebody reads, and no picture that can be
drawn here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.video.model.dag import Dag, Reference
from app.video.model.kinds import GENERATORS, RENDER, StageKind, Type

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
