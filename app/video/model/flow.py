"""The flow of a DAG: which stage waits for which. A list, or a graph {stage: [stages it waits for]}."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.video.errors import BadDag
from app.video.model.kinds import GENERATORS, RENDER
from app.video.model.reader import Reader

MAX_STAGES = 32
READER = Reader(BadDag)
_PLACE = "dag.flow"


def read_flow(data: object, generator: str) -> tuple[Any, dict[str, frozenset[str]]]:
    """Reads the flow of a DAG.

    Returns:
        The flow as it was written, and for each stage those that it waits for, without the generator.

    Raises:
        BadDag: It is no flow, has no stage, or has more than MAX_STAGES.
    """
    written, waits = _of_graph(data, generator) if isinstance(data, Mapping) else _of_list(data, generator)
    if not waits:
        raise READER.problem(_PLACE, "has no stage", "After the generator comes at least one.")
    if len(waits) > MAX_STAGES:
        raise READER.problem(_PLACE, f"has {len(waits)} stages; at most {MAX_STAGES} are allowed")
    return written, waits


def _of_list(data: object, generator: str) -> tuple[list[str], dict[str, frozenset[str]]]:
    listed = READER.sequence(data, _PLACE, most=MAX_STAGES + 1)
    if not listed or listed[0] != generator:
        raise READER.problem(_PLACE, f"does not begin with the generator {generator}")
    waits: dict[str, frozenset[str]] = {}
    for index, stage in enumerate(listed[1:], start=1):
        name = _read_stage(stage, f"{_PLACE}[{index}]")
        if name in waits:
            raise READER.problem(f"{_PLACE}[{index}]", f"{name} is there twice")
        waits[name] = frozenset(listed[index - 1 : index]) - {generator}
    return listed, waits


def _of_graph(data: object, generator: str) -> tuple[dict[str, list[str]], dict[str, frozenset[str]]]:
    graph = READER.mapping(data, _PLACE, most=MAX_STAGES + 1)
    written = {
        stage: READER.sequence(names, f"{_PLACE}.{stage[:64]}", most=MAX_STAGES) for stage, names in graph.items()
    }
    if written.get(generator):
        raise READER.problem(f"{_PLACE}.{generator}", "waits for a stage", "The generator is where it begins.")
    stages = {_read_stage(stage, _PLACE): names for stage, names in written.items() if stage != generator}
    waits = {stage: _list_waits(stage, names, stages, generator) for stage, names in stages.items()}
    return written, waits


def _list_waits(stage: str, names: Sequence[object], stages: Mapping[str, object], generator: str) -> frozenset[str]:
    place = f"{_PLACE}.{stage}"
    if not names:
        raise READER.problem(place, "waits for nothing", f"Name a stage, or the generator {generator}.")
    names_seen: set[str] = set()
    for index, name in enumerate(names):
        waits_for = READER.name(name, f"{place}[{index}]")
        if waits_for != generator and waits_for not in stages:
            raise READER.problem(
                f"{place}[{index}]",
                f"{waits_for} is no stage of the flow",
                f"There are {', '.join([generator, *stages])}.",
            )
        if waits_for in names_seen:
            raise READER.problem(f"{place}[{index}]", f"{waits_for} is there twice")
        names_seen.add(waits_for)
    return frozenset(names_seen - {generator})


def _read_stage(data: object, place: str) -> str:
    name = READER.name(data, place)
    if name == RENDER or name in GENERATORS:
        raise READER.problem(place, f"{name} is no stage", f"{RENDER} and the generators' names are taken.")
    return name


def topological_order(waits: Mapping[str, frozenset[str]]) -> tuple[str, ...]:
    """Returns the stages, each after those it waits for, otherwise as written.

    Raises:
        BadDag: They have a cycle; the error shows it.
    """
    remaining, ordered = list(waits), dict[str, None]()
    while remaining:
        ready = next((stage for stage in remaining if waits[stage] <= ordered.keys()), None)
        if ready is None:
            raise READER.problem(_PLACE, f"{' → '.join(_find_cycle(remaining[0], waits, set(remaining)))} is a cycle")
        ordered[ready] = None
        remaining.remove(ready)
    return tuple(ordered)


def _find_cycle(start: str, waits: Mapping[str, frozenset[str]], left: set[str]) -> list[str]:
    """A cycle, in the order of the flow. Each of `left` waits for another of them, so going back always ends in one."""
    path = [start]
    while path[-1] not in path[:-1]:
        path.append(min(waits[path[-1]] & left))
    return path[path.index(path[-1]) :][::-1]


def ancestors(stages: Sequence[str], before: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    """stage → all stages that have ended when it starts.

    Args:
        stages: Each after what it waits for.
        before: stage → the stages it waits for.
    """
    before_stage: dict[str, frozenset[str]] = {}
    for stage in stages:
        before_stage[stage] = before[stage].union(*(before_stage[each] for each in before[stage]))
    return before_stage
