"""DAGs as users write them: what is read, and what is refused with the place named."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.inference.broadcast import Broadcast
from app.inference.frame_gate import FrameGate
from app.inference.region import Region
from app.video.errors import BadDag
from app.video.model.dag import Reference, read_dag
from app.video.model.dag_types import check_types
from app.video.model.drawn_video import Recording
from app.video.model.flow import MAX_STAGES
from tests.harness.video.dags import KINDS, a_dag, a_graph

GENERATOR = "SingleFrameGenerator"


def refused(data: object) -> BadDag:
    with pytest.raises(BadDag) as caught:
        read_dag(data)
    assert caught.value.status == 400
    return caught.value


def test_the_requirements_dag_is_read_and_written_as_it_was() -> None:
    dag = read_dag(a_dag())
    assert (dag.generator, dag.stages) == (GENERATOR, ("face_detection", "face_alignment"))
    assert dag.before == {"face_detection": frozenset(), "face_alignment": frozenset({"face_detection"})}
    assert dag.inputs["face_alignment"]["bbox"] == Reference("face_detection", "bbox")
    assert dag.to_json() == a_dag()
    assert read_dag(json.loads(json.dumps(dag.to_json()))) == dag
    check_types(dag, KINDS)


def test_in_a_list_each_stage_waits_for_the_one_before_even_without_its_outputs() -> None:
    data = a_graph({"a": [GENERATOR], "b": [GENERATOR]}) | {"flow": [GENERATOR, "a", "b"]}
    assert read_dag(data).before == {"a": frozenset(), "b": frozenset({"a"})}


def test_a_graph_forks_and_merges() -> None:
    flow = {"merge": ["left", "right"], "left": ["first"], "right": ["first"], "first": [GENERATOR]}
    dag = read_dag(a_graph(flow))
    assert dag.stages == ("first", "left", "right", "merge")
    assert dag.before["merge"] == {"left", "right"}
    assert dag.ancestors()["merge"] == {"first", "left", "right"}
    assert (dag.before["left"], dag.before["right"]) == ({"first"}, {"first"})
    assert dag.to_json()["flow"] == flow


def test_a_graph_may_name_the_generator_as_its_begin() -> None:
    assert read_dag(a_graph({GENERATOR: [], "a": [GENERATOR]})).stages == ("a",)


def test_an_input_from_an_earlier_ancestor_is_waited_for_too() -> None:
    data = a_graph({"a": [GENERATOR], "b": ["a"], "c": ["b"]})
    data["input"]["c"]["bbox"] = "a.bbox"
    assert read_dag(data).before["c"] == {"a", "b"}


@pytest.mark.parametrize(
    ("flow", "message"),
    [
        ({"a": ["b"], "b": ["a"]}, "dag.flow: a → b → a is a cycle"),
        ({"a": ["a"]}, "dag.flow: a → a is a cycle"),
        ({"z": [GENERATOR], "a": ["c", "z"], "b": ["a"], "c": ["b"], "d": ["c"]}, "a → b → c → a is a cycle"),
        ({"a": ["nobody"]}, "dag.flow.a[0]: nobody is no stage of the flow"),
        ({"a": ["ClipGenerator"]}, "dag.flow.a[0]: ClipGenerator is no stage of the flow"),
        ({"a": []}, "dag.flow.a: waits for nothing"),
        ({"a": [GENERATOR, GENERATOR]}, "dag.flow.a[1]: SingleFrameGenerator is there twice"),
        ({GENERATOR: ["a"], "a": [GENERATOR]}, "dag.flow.SingleFrameGenerator: waits for a stage"),
        ({"a": GENERATOR}, "dag.flow.a: is 'SingleFrameGenerator', not a list"),
        ({"a": [1]}, "dag.flow.a[0]: 1 is no name"),
        ({"Render": [GENERATOR]}, "dag.flow: Render is no stage"),
        ({"a b": [GENERATOR]}, "dag.flow: 'a b' is no name"),
        ({GENERATOR: []}, "dag.flow: has no stage"),
        ({}, "dag.flow: has no stage"),
        ([GENERATOR], "dag.flow: has no stage"),
        ([], "dag.flow: does not begin with the generator"),
        (["a", GENERATOR], "dag.flow: does not begin with the generator"),
        (["ClipGenerator", "a"], "dag.flow: does not begin with the generator"),
        ([GENERATOR, "a", "b", "a"], "dag.flow[3]: a is there twice"),
        ([GENERATOR, "a", GENERATOR], "dag.flow[2]: SingleFrameGenerator is no stage"),
        ([GENERATOR, {"a": 1}], "dag.flow[1]: an object is no name"),
        ([GENERATOR, "x" * 65], "dag.flow[1]: 'xxxxx"),
        ([GENERATOR, "__import__('os')"], "is no name"),
        ("a", "dag.flow: is 'a', not a list"),
        (None, "dag.flow: is null, not a list"),
        ([GENERATOR, *(f"s{at}" for at in range(MAX_STAGES + 1))], "dag.flow: has 34 entries; at most 33"),
        ({f"s{at}": [GENERATOR] for at in range(MAX_STAGES + 1)}, "dag.flow: has 33 stages; at most 32"),
    ],
)
def test_a_flow_that_is_none_is_refused(flow: object, message: str) -> None:
    assert message in refused(a_dag(flow=flow)).message


def test_as_many_stages_as_allowed_are_taken() -> None:
    names = [f"s{at}" for at in range(MAX_STAGES)]
    data = a_graph({name: [GENERATOR] for name in names})
    assert read_dag(data | {"flow": [GENERATOR, *names]}).stages == tuple(names)
    assert read_dag(a_graph({GENERATOR: [], **{name: [GENERATOR] for name in names}})).stages == tuple(names)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"generator": "FileGenerator"}, "dag.generator: 'FileGenerator' is not known"),
        ({"generator": None}, "dag.generator: null is not known"),
        ({"generator": ["SingleFrameGenerator"]}, "dag.generator: a list is not known"),
        ({"input": []}, "dag.input: is a list, not an object"),
        ({"input": float("nan")}, "dag.input: is nan, not an object"),
        ({"steps": {}}, "dag.steps: is not known"),
        ({"stages": []}, "dag.stages: is a list"),
    ],
)
def test_a_part_that_is_none_is_refused(changes: dict[str, Any], message: str) -> None:
    assert message in refused(a_dag(**changes)).message


@pytest.mark.parametrize("data", [None, [], "dag", 1, True, float("nan"), 10**100, {}, {1: 2}, {"generator": {}}])
def test_what_is_no_dag_is_refused(data: object) -> None:
    assert refused(data).message.startswith("dag")


@pytest.mark.parametrize("key", ["generator", "flow", "input"])
def test_each_part_is_needed(key: str) -> None:
    data = a_dag()
    del data[key]
    assert refused(data).message == f"dag.{key}: is missing"


@pytest.mark.parametrize(
    ("stage", "field", "reference", "message"),
    [
        ("face_alignment", "bbox", "face_detection", "'face_detection' is no reference"),
        ("face_alignment", "bbox", "face_detection.bbox.more", "is no reference"),
        ("face_alignment", "bbox", ".bbox", "is no reference"),
        ("face_alignment", "bbox", "face_detection.", "is no reference"),
        ("face_alignment", "bbox", "__import__('os').system", "is no reference"),
        ("face_alignment", "bbox", 1, "1 is no reference"),
        ("face_alignment", "bbox", ["face_detection.bbox"], "a list is no reference"),
        ("face_alignment", "bbox", "nobody.bbox", "refers to nobody, which does not come before it"),
        ("face_alignment", "bbox", "face_alignment.bbox", "refers to face_alignment, which does not come before it"),
        ("face_detection", "bbox", "face_alignment.bbox", "refers to face_alignment, which does not come before it"),
        ("face_alignment", "bbox", "ClipGenerator.clip", "refers to ClipGenerator, which does not come before it"),
        ("face_alignment", "bbox", "Render.image", "refers to Render, which does not come before it"),
        ("Render", "image", "nobody.image", "refers to nobody"),
    ],
)
def test_a_bad_reference_is_refused_with_its_place(stage: str, field: str, reference: object, message: str) -> None:
    data = a_dag()
    data["input"][stage][field] = reference
    error = refused(data)
    assert error.message.startswith(f"dag.input.{stage}.{field}: ") and message in error.message
    assert error.detail["place"] == f"dag.input.{stage}.{field}"


def test_a_sibling_does_not_come_before() -> None:
    data = a_graph({"a": [GENERATOR], "b": [GENERATOR]})
    data["input"]["b"]["bbox"] = "a.bbox"
    assert "refers to a, which does not come before it" in refused(data).message


@pytest.mark.parametrize("field", ["image", "count"])
def test_render_needs_image_and_count(field: str) -> None:
    data = a_dag()
    del data["input"]["Render"][field]
    assert refused(data).message == f"dag.input.Render.{field}: is missing"


def test_render_is_needed() -> None:
    data = a_dag()
    del data["input"]["Render"]
    assert refused(data).message == "dag.input.Render: is missing"


def test_inputs_of_what_is_no_stage_are_refused() -> None:
    data = a_dag()
    data["input"]["car_detection"] = {"image": "SingleFrameGenerator.image"}
    assert refused(data).message == "dag.input.car_detection: is no stage of the flow"


def test_own_stages_are_read_with_one_model_or_several_a_variant() -> None:
    own = {
        "face_alignment": {
            "kind": "face_alignment",
            "models": ["one", ["two", "three"]],
            "parameters": {"score": 0.5, "top": 3, "flag": True, "text": "x"},
        }
    }
    dag = read_dag(a_dag(stages=own))
    spec = dag.own["face_alignment"]
    assert spec.models == (("one",), ("two", "three"))
    assert spec.parameters == {"score": "0.5", "top": "3", "flag": "true", "text": "x"}
    assert read_dag(dag.to_json()) == dag


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"car": {"kind": "car", "models": []}}, "dag.stages.car: is no stage of the flow"),
        ({"face_detection": {"models": []}}, "dag.stages.face_detection.kind: is missing"),
        ({"face_detection": {"kind": "d"}}, "dag.stages.face_detection.models: is missing"),
        ({"face_detection": {"kind": 1, "models": []}}, "dag.stages.face_detection.kind: 1 is no name"),
        ({"face_detection": {"kind": "d", "models": "m"}}, "models: is 'm', not a list"),
        ({"face_detection": {"kind": "d", "models": ["a", "b", "c", "d"]}}, "models: has 4 entries; at most 3"),
        ({"face_detection": {"kind": "d", "models": [[]]}}, "models[0]: names no model"),
        ({"face_detection": {"kind": "d", "models": [1]}}, "models[0]: is 1, not a list"),
        ({"face_detection": {"kind": "d", "models": [["a", 1]]}}, "models[0]: is 1, not a text"),
        ({"face_detection": {"kind": "d", "models": ["a\n"]}}, "models[0]: 'a\\n' is not a printable text"),
        ({"face_detection": {"kind": "d", "models": [], "parameters": {"a": {}}}}, "parameters.a: is an object"),
        ({"face_detection": {"kind": "d", "models": [], "parameters": {"a": float("inf")}}}, "parameters.a: is inf"),
        ({"face_detection": {"kind": "d", "models": [], "code": "x"}}, "face_detection.code: is not known"),
        ({"face_detection": None}, "dag.stages.face_detection: is null"),
    ],
)
def test_own_stages_that_are_none_are_refused(own: object, message: str) -> None:
    assert message in refused(a_dag(stages=own)).message


def test_what_is_deep_or_huge_is_refused_in_few_words() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    huge = {f"k{at}": "v" for at in range(100_000)}
    for value in (deep, huge, "x" * 10_000_000, 10**5000):
        for key in ("generator", "flow", "input", "stages"):
            error = refused(a_dag(**{key: value}))
            assert len(error.message) < 300
    assert len(refused({"x" * 10_000_000: 1}).message) < 300
    while deep:  # taken apart by hand: the interpreter would do it recursively
        deep = deep[0]


# Types


def test_the_gate_of_a_dag_is_read_and_written_as_it_was() -> None:
    gate = {"region": "0.1,0.5,0.9,1", "motion": 0.005, "still_s": 5.0}
    dag = read_dag(a_dag() | {"gate": gate})
    assert dag.gate == FrameGate(Region(0.1, 0.5, 0.9, 1.0), 0.005, 5.0)
    assert dag.to_json() == a_dag() | {"gate": gate}


@pytest.mark.parametrize(
    "gate",
    [{"region": "1,1,0,0"}, {"region": 5}, {"motion": 2}, {"motion": 0.1, "still_s": 0}, {"area": 1}, "0.5"],
    ids=str,
)
def test_another_gate_is_refused_with_its_place(gate: object) -> None:
    assert "dag.gate" in refused(a_dag() | {"gate": gate}).message


def test_the_recording_of_a_dag_is_read_with_its_defaults_and_written() -> None:
    dag = read_dag(a_dag() | {"recording": {"hours": 2}})
    assert dag.recording == Recording(2.0, 2000, 5.0, 640)
    written = {"hours": 2.0, "megabytes": 2000, "fps": 5.0, "width": 640}
    assert dag.to_json() == a_dag() | {"recording": written}
    assert read_dag(dag.to_json()) == dag


@pytest.mark.parametrize(
    ("recording", "place"),
    [
        ({}, "hours"),
        ({"hours": 0}, "hours"),
        ({"hours": 1e6}, "hours"),
        ({"hours": "1"}, "hours"),
        ({"hours": 1, "megabytes": 0}, "megabytes"),
        ({"hours": 1, "fps": 60}, "fps"),
        ({"hours": 1, "width": 8000}, "width"),
        ({"hours": 1, "audio": True}, "audio"),
        ("1", ""),
    ],
    ids=str,
)
def test_another_recording_is_refused_with_its_place(recording: object, place: str) -> None:
    assert f"dag.recording.{place}".rstrip(".") in refused(a_dag() | {"recording": recording}).message


def test_clips_have_no_motion_gate() -> None:
    graph = a_graph({"a": ["ClipGenerator"]}) | {"generator": "ClipGenerator", "gate": {"motion": 0.1}}
    graph["input"] = json.loads(json.dumps(graph["input"]).replace("SingleFrameGenerator", "ClipGenerator"))
    assert "ClipGenerator" in refused(graph).message


def test_the_broadcast_of_a_dag_is_read_with_its_defaults_and_written() -> None:
    dag = read_dag(a_dag() | {"broadcast": {"path": "yard/door"}})
    assert dag.broadcast == Broadcast("yard/door", 10.0, 640)
    assert read_dag(dag.to_json()) == dag
    assert read_dag(a_dag() | {"broadcast": {}}).broadcast == Broadcast()


@pytest.mark.parametrize(
    ("broadcast", "place"),
    [
        ({"path": "../door"}, "path"),
        ({"path": "/door"}, "path"),
        ({"path": "door?a=b"}, "path"),
        ({"path": "d" * 101}, "path"),
        ({"fps": 60}, "fps"),
        ({"width": 8000}, "width"),
        ({"url": "rtsp://elsewhere.example/door"}, "url"),
        ("door", ""),
    ],
    ids=str,
)
def test_another_broadcast_is_refused_with_its_place(broadcast: object, place: str) -> None:
    assert refused(a_dag() | {"broadcast": broadcast}).detail["place"] == f"dag.broadcast{place and '.' + place}"
