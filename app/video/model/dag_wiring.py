"""Wires stages together: which output each input can take, and which it takes when nobody says. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from app.video.errors import BadDag
from app.video.model.kinds import CLIP, GENERATORS, RENDER, RENDERED, SINGLE_FRAME, StageKind, Type


@dataclass(frozen=True)
class Input:
    """An input of a stage or of Render. offers: outputs of its type that come before, as `stage.field`, the best first.
    taken: one of them, or empty: none fits. chosen: as its user said; empty: by itself."""

    stage: str
    field: str
    type: Type
    is_optional: bool
    offers: tuple[str, ...]
    chosen: str

    @property
    def name(self) -> str:
        """Of its field in the form."""
        return f"in.{self.stage}.{self.field}"

    @property
    def taken(self) -> str:
        if self.chosen in self.offers:
            return self.chosen
        if self.chosen == NOTHING and self.is_optional:
            return ""
        return self.offers[0] if self.offers else ""


NOTHING = "-"
"""Chosen for an optional input that is to stay empty."""


def wired(
    generator: str, stages: Sequence[str], kinds: Mapping[str, StageKind], chosen: Mapping[str, str]
) -> tuple[Input, ...]:
    """kinds: by stage. chosen: name of the form's field → output. Stages of an unknown kind have no inputs."""
    outputs: list[tuple[str, str, Type]] = []
    if generator in GENERATORS:
        outputs += [(generator, field, kind) for field, kind in GENERATORS[generator].outputs.items()]
    found: list[Input] = []
    for stage in stages:
        kind = kinds.get(stage)
        if kind is None:
            continue
        found += [
            _input(stage, field, wanted, outputs, chosen, is_optional=field in kind.optional)
            for field, wanted in kind.inputs.items()
        ]
        outputs += [(stage, field, made) for field, made in kind.outputs.items()]
    found += [_input(RENDER, field, wanted, outputs, chosen, is_optional=False) for field, wanted in RENDERED.items()]
    return tuple(found)


def ordered(generator: str, stages: Sequence[str], kinds: Mapping[str, StageKind]) -> tuple[str, ...]:
    """The stages so that each comes after one that gives what it needs, as far as that is possible."""
    left = list(stages)
    found: list[str] = []
    while left:
        ready = (one for one in left if not _lacks(generator, (*found, one), kinds))
        found.append(next(ready, left[0]))
        left.remove(found[-1])
    return tuple(found)


def _lacks(generator: str, stages: Sequence[str], kinds: Mapping[str, StageKind]) -> bool:
    """Has the last of them an input that nothing before it gives?"""
    inputs = wired(generator, stages, kinds, {})
    return any(one.stage == stages[-1] and not one.taken and not one.is_optional for one in inputs)


def _input(
    stage: str,
    field: str,
    wanted: Type,
    outputs: Sequence[tuple[str, str, Type]],
    chosen: Mapping[str, str],
    *,
    is_optional: bool,
) -> Input:
    """Same name before other names. A stage gets the picture of the generator, for on another stage's are drawings;
    all else, and Render's, come from the latest stage."""
    fitting = [(source, name) for source, name, made in outputs if made is wanted]
    if not (wanted is Type.IMAGE and stage != RENDER):
        fitting.reverse()
    fitting.sort(key=lambda pair: pair[1] != field)
    if stage == RENDER:
        fitting.sort(key=lambda pair: pair[0] in GENERATORS)
    offers = tuple(f"{source}.{name}" for source, name in fitting)
    return Input(stage, field, wanted, is_optional, offers, chosen.get(f"in.{stage}.{field}", ""))


def dag_of(generator: str, stages: Sequence[str], inputs: Sequence[Input]) -> dict[str, Any]:
    """As the requirement writes it. flow: a list, or a graph where two stages need not wait for each other."""
    taken: dict[str, dict[str, str]] = {stage: {} for stage in (*stages, RENDER)}
    for one in inputs:
        if one.taken:
            taken[one.stage][one.field] = one.taken
    return {"generator": generator, "flow": _flow(generator, stages, taken), "input": taken}


def chained(stages: Sequence[tuple[str, StageKind]]) -> dict[str, Any]:
    """(name, kind) in the order they run → the DAG that goes without saying. Raises BadDag where nothing fits."""
    generator = CLIP if any(Type.CLIP in kind.inputs.values() for _, kind in stages) else SINGLE_FRAME
    names = [name for name, _ in stages]
    inputs = wired(generator.name, names, dict(stages), {})
    for one in inputs:
        if not one.taken and not one.is_optional:
            raise BadDag(
                f"{one.stage}.{one.field}: nothing before it has {one.type.value} for it.",
                hint="Write a DAG, which says whose output each input is.",
            )
    return dag_of(generator.name, names, inputs)


def rendered(dag: Mapping[str, Any], kinds: Mapping[str, StageKind]) -> dict[str, Any]:
    """A DAG without Render, as the requirement's /node/submit_job has it, with one: the picture that its last stage
    drew, else the generator's, and the newest counts. kinds: of stages by name. One that has it, or where nothing fits,
    stays as it is."""
    given, generator, flow = dag.get("input"), str(dag.get("generator")), dag.get("flow")
    if (
        not (isinstance(given, Mapping) and isinstance(flow, Iterable))
        or generator not in GENERATORS
        or RENDER in given
    ):
        return dict(dag)
    names = [name for name in flow if isinstance(name, str) and name in kinds]
    shown = {one.field: one.taken for one in wired(generator, names, kinds, {}) if one.stage == RENDER}
    return {**dag, "input": {**given, RENDER: shown}} if all(shown.values()) else dict(dag)


def _flow(generator: str, stages: Sequence[str], taken: Mapping[str, Mapping[str, str]]) -> Any:
    before = {stage: sorted({_source(one) for one in taken[stage].values()} - {generator}) for stage in stages}
    is_line = all(earlier in before[later] for earlier, later in pairwise(stages))
    if is_line:
        return [generator, *stages]
    return {stage: before[stage] or [generator] for stage in stages}


def _source(reference: str) -> str:
    return reference.rpartition(".")[0]
