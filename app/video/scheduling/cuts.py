"""The ways to cut a DAG between the host and another node. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice

from app.video.errors import BadPlan
from app.video.scheduling.contract import DagInfo, ResourceInfo
from app.video.scheduling.placement import HERE_FIRST, HOST, Place, node_of, place_for, place_on

MAX_CUTS = 32


def mappings(
    dag: DagInfo, resource_info: ResourceInfo, model_id: int, roles: frozenset[str] | set[str]
) -> list[dict[str, Place]]:
    """Each way to cut the DAG between the host and one node of these roles, among nodes that are online and serve the
    stages; first the one in which everything runs at the host. If there is none, each stage is put where it is served,
    if at all.

    Args:
        model_id: of every stage, 0 the smallest.
        roles: of the node that may take stages over from the host.

    Returns:
        By stage, as in flow_mapping.
    """
    hosts = [info for info in resource_info.values() if info["role"] == HOST and info["online"]]
    others = [info for info in resource_info.values() if info["role"] in roles and info["online"]]
    cuts: list[dict[str, Place]] = []
    for host in hosts[:1]:
        cuts.append({stage: place_on(host, model_id, dag, stage) for stage in dag["stages"]})
    for other in others:
        for away in splits(dag):
            nodes = {stage: other if stage in away else (hosts[0] if hosts else None) for stage in dag["stages"]}
            if away and None not in nodes.values():
                cuts.append({stage: place_on(node, model_id, dag, stage) for stage, node in nodes.items() if node})
    return [mapping for mapping in cuts if _is_served(mapping, resource_info)] or _by_stage(
        dag, resource_info, model_id
    )


def _by_stage(dag: DagInfo, resource_info: ResourceInfo, model_id: int) -> list[dict[str, Place]]:
    with suppress(BadPlan):
        places = {stage: place_for(resource_info, stage, HERE_FIRST) for stage in dag["stages"]}
        return [
            {stage: place_on(node_of(place, resource_info), model_id, dag, stage) for stage, place in places.items()}
        ]
    return []


def splits(dag: DagInfo) -> list[frozenset[str]]:
    """The sets of stages that may run elsewhere: with each stage all that wait for it. At most MAX_CUTS."""
    order = [stage for stage in dag["flow"] if stage in dag["stages"]]
    return list(islice(_iterate_splits(dag, order[::-1], frozenset()), MAX_CUTS))


def _iterate_splits(dag: DagInfo, rest: Sequence[str], away: frozenset[str]) -> Iterator[frozenset[str]]:
    if not rest:
        yield away
        return
    stage, *others = rest
    if all(later in away for later, facts in dag["stages"].items() if stage in facts["before"]):
        yield from _iterate_splits(dag, others, away | {stage})
    yield from _iterate_splits(dag, others, away)


def _is_served(mapping: Mapping[str, Mapping[str, object]], resource_info: ResourceInfo) -> bool:
    return all(stage in node_of(place, resource_info)["service"] for stage, place in mapping.items())
