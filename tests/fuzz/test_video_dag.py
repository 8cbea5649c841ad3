"""What comes from outside of a video job: each document is read or refused in words, and what is read holds together.

As many documents as there is time for; MODELMILL_SEARCH_SEED repeats a search.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import strategies as st

from app.kit.errors import BadRequest
from app.video.errors import BadConstraint, BadDag, BadPlan
from app.video.model.constraint import read_constraint
from app.video.model.dag import Dag, read_dag
from app.video.model.dag_types import check_types
from app.video.model.plan import read_flow_mapping, read_video_conf
from tests.harness.timed_search import searched
from tests.harness.video.dags import KINDS, a_dag, a_graph

SECONDS = 0.2
"""Of the processor, for each search."""
LONGEST = 3000
"""Characters of an error: hints name up to 32 stages of 64 characters each."""
GENERATOR = "SingleFrameGenerator"

WORDS = st.sampled_from(
    [
        GENERATOR,
        "ClipGenerator",
        "Render",
        "face_detection",
        "face_alignment",
        "face_detection.bbox",
        "a",
        "b",
        "image",
        f"{GENERATOR}.image",
        "generator",
        "flow",
        "input",
        "stages",
        "kind",
        "models",
        "delay",
        "accuracy",
        "acc_level",
        "resolution",
        "fps",
        "nskip",
        "480p",
        "host",
        "model_id",
        "node_role",
        "node_ip",
        "__import__('os')",
        "",
        "\x00",
        "臉",
    ]
)
PLAIN = st.none() | st.booleans() | st.integers() | st.just(10**4000) | st.floats() | st.text(max_size=80) | WORDS
ANYTHING = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(WORDS | st.text(max_size=70), inner, max_size=6),
    max_leaves=25,
)


@st.composite
def damaged(draw: st.DrawFn, document: dict[str, Any]) -> Any:
    """The document with something else, or nothing, in one to three of its places."""
    whole: dict[str, Any] = {"": deepcopy(document)}
    for _ in range(draw(st.integers(1, 3))):
        holder, key = draw(st.sampled_from(list(_places(whole))))
        match draw(st.sampled_from(["other", "gone", "more"])):
            case "other":
                holder[key] = draw(ANYTHING)
            case "gone" if holder is not whole:
                del holder[key]
            case _ if isinstance(holder[key], dict):
                holder[key][draw(WORDS)] = draw(ANYTHING)
            case _ if isinstance(holder[key], list):
                holder[key].append(draw(ANYTHING))
    return whole[""]


def _places(value: Any) -> Any:
    """Each holder and key of a tree, from the root on."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from _places(value[key])


def read_or_refused(read: Callable[[object], Any], data: object, error: type[BadRequest], place: str) -> Any:
    try:
        return read(data)
    except error as refused:
        assert refused.message.startswith(place) and refused.status == 400
        assert len(refused.message) + len(refused.hint) < LONGEST
        json.dumps(refused.to_dict())
        return None


def holds_together(dag: Dag) -> None:
    """In order, without cycles, each reference to what comes before, and the same after being written."""
    known = {dag.generator}
    for stage in dag.stages:
        assert dag.before[stage] <= known
        assert {reference.source for reference in dag.inputs.get(stage, {}).values()} <= {dag.generator} | dag.before[
            stage
        ]
        known.add(stage)
    assert set(dag.before) == set(dag.stages) and {"image", "count"} <= set(dag.inputs["Render"])
    assert read_dag(json.loads(json.dumps(dag.to_json()))) == dag


@searched(
    ANYTHING | damaged(a_dag()) | damaged(a_graph({"a": [GENERATOR], "b": ["a"], "c": ["a"], "d": ["b", "c"]})),
    seconds=SECONDS,
)
def test_any_document_is_a_dag_or_refused(data: object) -> None:
    dag = read_or_refused(read_dag, data, BadDag, "dag")
    if dag is not None:
        holds_together(dag)


@searched(damaged(a_dag()), seconds=SECONDS)
def test_types_of_any_dag_fit_or_are_refused(data: object) -> None:
    dag = read_or_refused(read_dag, data, BadDag, "dag")
    if dag is not None and set(dag.stages) <= set(KINDS):
        read_or_refused(lambda given: check_types(given, KINDS), dag, BadDag, "dag.input")  # type: ignore[arg-type]


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, list[str]]:
    """Without cycles, the stages written in any order."""
    names = [f"s{at}" for at in range(draw(st.integers(1, 12)))]
    flow = {
        name: draw(st.lists(st.sampled_from([GENERATOR, *names[:at]]), min_size=1, unique=True))
        for at, name in enumerate(names)
    }
    return {name: flow[name] for name in draw(st.permutations(names))}


@searched(graphs(), seconds=SECONDS)
def test_every_graph_without_a_cycle_is_read(flow: dict[str, list[str]]) -> None:
    dag = read_dag(a_graph(flow))
    holds_together(dag)
    assert {stage: set(names) - {GENERATOR} for stage, names in flow.items()} == dag.before


@searched(graphs(), st.data(), seconds=SECONDS)
def test_every_graph_with_a_cycle_is_refused_and_the_cycle_named(
    flow: dict[str, list[str]], data: st.DataObject
) -> None:
    last = data.draw(st.sampled_from(sorted(flow)))
    known = read_dag(a_graph(flow)).ancestors()[last]
    first = data.draw(st.sampled_from(sorted({last} | known)))
    flow[first] = sorted({*flow[first], last})
    with pytest.raises(BadDag, match=r"^dag\.flow: s\d+ → .*is a cycle$") as caught:
        read_dag(a_graph(flow))
    path = caught.value.message.removeprefix("dag.flow: ").removesuffix(" is a cycle").split(" → ")
    assert path[0] == path[-1]
    assert all(before in flow[after] for before, after in zip(path, path[1:], strict=False))  # noqa: RUF007


@searched(ANYTHING | damaged({"delay": [0.1, 0.4], "accuracy": 0.9}), seconds=SECONDS)
def test_any_constraint_is_read_or_refused(data: object) -> None:
    constraint = read_or_refused(read_constraint, data, BadConstraint, "user_constraint")
    if constraint is not None:
        assert constraint.hi > 0 and (constraint.lo == -1 or 0 <= constraint.lo < constraint.hi)
        assert 0 <= constraint.quality <= 1
        assert read_constraint(json.loads(json.dumps(constraint.to_json()))) == constraint


CONF = {"resolution": "360p", "fps": 30, "nskip": 1, "ntracking": 5, "encoder": "H264"}
PLACE = {"model_id": 0, "node_role": "host", "node_ip": "192.168.56.102"}


@searched(ANYTHING | damaged(CONF) | damaged({"a": CONF, "b": CONF}), seconds=SECONDS)
def test_any_video_conf_is_read_or_refused(data: object) -> None:
    conf = read_or_refused(read_video_conf, data, BadPlan, "video_conf")
    if conf is not None:
        assert 0 < conf.fps <= 120
        assert read_video_conf(json.loads(json.dumps(conf.to_json()))) == conf


@searched(ANYTHING | damaged({"a": PLACE, "b": {**PLACE, "node": "edge0"}}), seconds=SECONDS)
def test_any_flow_mapping_is_read_or_refused(data: object) -> None:
    places = read_or_refused(read_flow_mapping, data, BadPlan, "flow_mapping")
    if places is not None:
        written = {stage: place.to_json() for stage, place in places.items()}
        assert read_flow_mapping(json.loads(json.dumps(written))) == places
