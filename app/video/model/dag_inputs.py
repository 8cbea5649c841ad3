"""Wires stages together: which outputs each input can take, and which it takes by default. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from app.kit.text.json_values import JsonObject
from app.video.errors import BadDag
from app.video.model.kinds import CLIP, GENERATORS, RENDER, RENDERED, SINGLE_FRAME, StageKind, Type


@dataclass(frozen=True)
class StageInput:
    """An input of a stage or of Render."""

    stage: str
    field: str
    type: Type
    is_optional: bool
    offers: tuple[str, ...]
    """Outputs of its type from earlier stages, as `stage.field`, the best first."""
    chosen: str
    """The user's choice; empty: the best one is used."""

    @property
    def name(self) -> str:
        """The name of its field in the form."""
        return f"in.{self.stage}.{self.field}"

    @property
    def taken(self) -> str:
        """The connected output; empty: none."""
        if self.chosen in self.offers:
            return self.chosen
        if self.chosen == NOTHING and self.is_optional:
            return ""
        return self.offers[0] if self.offers else ""


NOTHING = "-"
"""The choice for an optional input that stays empty."""


def wire_inputs(
    generator: str, stages: Sequence[str], kinds: Mapping[str, StageKind], chosen: Mapping[str, str]
) -> tuple[StageInput, ...]:
    """The inputs of all stages and of Render.

    Args:
        kinds: By stage; a stage without a kind has no inputs.
        chosen: Name of the form's field → output.
    """
    outputs: list[tuple[str, str, Type]] = []
    if generator in GENERATORS:
        outputs += [(generator, field, kind) for field, kind in GENERATORS[generator].outputs.items()]
    inputs: list[StageInput] = []
    for stage in stages:
        kind = kinds.get(stage)
        if kind is None:
            continue
        inputs += [
            _choose_input(stage, field, type_, outputs, chosen, is_optional=field in kind.optional)
            for field, type_ in kind.inputs.items()
        ]
        outputs += [(stage, field, output_type) for field, output_type in kind.outputs.items()]
    inputs += [
        _choose_input(RENDER, field, type_, outputs, chosen, is_optional=False) for field, type_ in RENDERED.items()
    ]
    return tuple(inputs)


def order_stages(generator: str, stages: Sequence[str], kinds: Mapping[str, StageKind]) -> tuple[str, ...]:
    """The stages, each after those that provide what it needs, as far as possible."""
    remaining = list(stages)
    order: list[str] = []
    while remaining:
        ready = (stage for stage in remaining if not _lacks(generator, (*order, stage), kinds))
        order.append(next(ready, remaining[0]))
        remaining.remove(order[-1])
    return tuple(order)


def _lacks(generator: str, stages: Sequence[str], kinds: Mapping[str, StageKind]) -> bool:
    """Whether the last of them needs an input that no earlier one provides."""
    inputs = wire_inputs(generator, stages, kinds, {})
    return any(input_.stage == stages[-1] and not input_.taken and not input_.is_optional for input_ in inputs)


def _choose_input(
    stage: str,
    field: str,
    type_: Type,
    outputs: Sequence[tuple[str, str, Type]],
    chosen: Mapping[str, str],
    *,
    is_optional: bool,
) -> StageInput:
    """Outputs of the same name are preferred. A stage gets the picture of the generator, because other stages draw on
    theirs; everything else, and all inputs of Render, come from the latest stage."""
    fitting = [(source, name) for source, name, output_type in outputs if output_type is type_]
    if not (type_ is Type.IMAGE and stage != RENDER):
        fitting.reverse()
    fitting.sort(key=lambda pair: pair[1] != field)
    if stage == RENDER:
        fitting.sort(key=lambda pair: pair[0] in GENERATORS)
    offers = tuple(f"{source}.{name}" for source, name in fitting)
    return StageInput(stage, field, type_, is_optional, offers, chosen.get(f"in.{stage}.{field}", ""))


def dag_of(generator: str, stages: Sequence[str], inputs: Sequence[StageInput]) -> JsonObject:
    """In the requirement's format. flow: a list, or a graph if two stages need not wait for each other."""
    taken: dict[str, dict[str, str]] = {stage: {} for stage in (*stages, RENDER)}
    for input_ in inputs:
        if input_.taken:
            taken[input_.stage][input_.field] = input_.taken
    return {"generator": generator, "flow": _build_flow(generator, stages, taken), "input": taken}


def chain_stages(stages: Sequence[tuple[str, StageKind]]) -> JsonObject:
    """Returns the DAG of stages that run one after another; each input uses the best earlier output.

    Args:
        stages: (name, kind) in the order they run.

    Raises:
        BadDag: No earlier output fits an input of a stage.
    """
    generator = CLIP if any(Type.CLIP in kind.inputs.values() for _, kind in stages) else SINGLE_FRAME
    names = [name for name, _ in stages]
    inputs = wire_inputs(generator.name, names, dict(stages), {})
    for input_ in inputs:
        if not input_.taken and not input_.is_optional:
            raise BadDag(
                f"{input_.stage}.{input_.field}: nothing before it has {input_.type.value} for it.",
                hint="Write a DAG, which says whose output each input is.",
            )
    return dag_of(generator.name, names, inputs)


def with_render(dag: Mapping[str, Any], kinds: Mapping[str, StageKind]) -> JsonObject:
    """Adds Render to a DAG without it, as sent to the requirement's /node/submit_job: the picture that the last stage
    drew, otherwise the generator's, and the newest counts. A DAG that has it, or for which nothing fits, stays
    unchanged.

    Args:
        kinds: By stage.
    """
    inputs, generator, flow = dag.get("input"), str(dag.get("generator")), dag.get("flow")
    if (
        not (isinstance(inputs, Mapping) and isinstance(flow, Iterable))
        or generator not in GENERATORS
        or RENDER in inputs
    ):
        return dict(dag)
    names = [name for name in flow if isinstance(name, str) and name in kinds]
    shown = {
        input_.field: input_.taken for input_ in wire_inputs(generator, names, kinds, {}) if input_.stage == RENDER
    }
    return {**dag, "input": {**inputs, RENDER: shown}} if all(shown.values()) else dict(dag)


def _build_flow(generator: str, stages: Sequence[str], taken: Mapping[str, Mapping[str, str]]) -> Any:
    before = {
        stage: sorted({_get_source(reference) for reference in taken[stage].values()} - {generator}) for stage in stages
    }
    is_line = all(earlier in before[later] for earlier, later in pairwise(stages))
    if is_line:
        return [generator, *stages]
    return {stage: before[stage] or [generator] for stage in stages}


def _get_source(reference: str) -> str:
    return reference.rpartition(".")[0]
