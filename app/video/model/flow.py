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
    """The flow as it was written, and stage → the stages it waits for, without the generator. Raises BadDag."""
    written, waits = _of_graph(data, generator) if isinstance(data, Mapping) else _of_list(data, generator)
    if not waits:
        raise READER.wrong(_PLACE, "has no stage", "After the generator comes at least one.")
    if len(waits) > MAX_STAGES:
        raise READER.wrong(_PLACE, f"has {len(waits)} stages; at most {MAX_STAGES} are allowed")
    return written, waits


def _of_list(data: object, generator: str) -> tuple[list[str], dict[str, frozenset[str]]]:
    listed = READER.listing(data, _PLACE, most=MAX_STAGES + 1)
    if not listed or listed[0] != generator:
        raise READER.wrong(_PLACE, f"does not begin with the generator {generator}")
    waits: dict[str, frozenset[str]] = {}
    for index, stage in enumerate(listed[1:], start=1):
        name = _stage(stage, f"{_PLACE}[{index}]")
        if name in waits:
            raise READER.wrong(f"{_PLACE}[{index}]", f"{name} is there twice")
        waits[name] = frozenset(listed[index - 1 : index]) - {generator}
    return listed, waits


def _of_graph(data: object, generator: str) -> tuple[dict[str, list[str]], dict[str, frozenset[str]]]:
    given = READER.mapping(data, _PLACE, most=MAX_STAGES + 1)
    written = {
        stage: READER.listing(names, f"{_PLACE}.{stage[:64]}", most=MAX_STAGES) for stage, names in given.items()
    }
    if written.get(generator):
        raise READER.wrong(f"{_PLACE}.{generator}", "waits for a stage", "The generator is where it begins.")
    stages = {_stage(stage, _PLACE): names for stage, names in written.items() if stage != generator}
    waits = {stage: _waits(stage, names, stages, generator) for stage, names in stages.items()}
    return written, waits


def _waits(stage: str, names: Sequence[object], stages: Mapping[str, object], generator: str) -> frozenset[str]:
    place = f"{_PLACE}.{stage}"
    if not names:
        raise READER.wrong(place, "waits for nothing", f"Name a stage, or the generator {generator}.")
    found: set[str] = set()
    for index, name in enumerate(names):
        known = READER.name(name, f"{place}[{index}]")
        if known != generator and known not in stages:
            raise READER.wrong(
                f"{place}[{index}]",
                f"{known} is no stage of the flow",
                f"There are {', '.join([generator, *stages])}.",
            )
        if known in found:
            raise READER.wrong(f"{place}[{index}]", f"{known} is there twice")
        found.add(known)
    return frozenset(found - {generator})


def _stage(data: object, place: str) -> str:
    name = READER.name(data, place)
    if name == RENDER or name in GENERATORS:
        raise READER.wrong(place, f"{name} is no stage", f"{RENDER} and the generators' names are taken.")
    return name


def in_order(waits: Mapping[str, frozenset[str]]) -> tuple[str, ...]:
    """Each after all that it waits for; else as written. Raises BadDag for a cycle, naming it."""
    left, ordered = list(waits), dict[str, None]()
    while left:
        ready = next((stage for stage in left if waits[stage] <= ordered.keys()), None)
        if ready is None:
            raise READER.wrong(_PLACE, f"{' → '.join(_cycle(left[0], waits, set(left)))} is a cycle")
        ordered[ready] = None
        left.remove(ready)
    return tuple(ordered)


def _cycle(start: str, waits: Mapping[str, frozenset[str]], left: set[str]) -> list[str]:
    """Each of `left` waits for another one of them: going back from one ends in a cycle. In the order of the flow."""
    path = [start]
    while path[-1] not in path[:-1]:
        path.append(min(waits[path[-1]] & left))
    return path[path.index(path[-1]) :][::-1]


def ancestors(stages: Sequence[str], before: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    """stages: each after what it waits for. stage → all that have ended when it begins."""
    known: dict[str, frozenset[str]] = {}
    for stage in stages:
        known[stage] = before[stage].union(*(known[each] for each in before[stage]))
    return known
