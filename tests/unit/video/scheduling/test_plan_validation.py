"""Which plans can be carried out, given what nodes there are."""

from __future__ import annotations

from typing import Any

import pytest

from app.video.errors import BadPlan
from app.video.model.plan import Plan, Role, StagePlace, VideoConf
from app.video.scheduling.contract import ResourceInfo
from app.video.scheduling.plan_validation import validate_plan
from tests.harness.video.scheduling_cases import CLOUD, EDGE, HOST, STAGES, a_dag_info, a_node, an_answer, nodes

CONF = {"resolution": "480p", "fps": 24}
THREE = nodes(HOST, CLOUD, EDGE)


def judge(flow_mapping: object, resource_info: ResourceInfo = THREE, conf: object = CONF) -> Plan:
    return validate_plan(conf, flow_mapping, dag=a_dag_info(), resource_info=resource_info, policy="p")


@pytest.mark.parametrize(
    ("role", "ip", "node", "address"),
    [
        ("host", "10.0.0.1", "edge0", "10.0.0.1"),
        ("cloud", "10.0.0.2", "cloud0", "10.0.0.2"),
        ("cloud", "cloud0", "cloud0", "10.0.0.2"),
        ("edge", "edge1", "edge1", "10.0.0.3"),
    ],
)
def test_a_node_is_named_by_its_address_or_its_name(role: str, ip: str, node: str, address: str) -> None:
    plan = judge(an_answer(role, ip))
    place = StagePlace(0, Role(role), address, node)
    assert plan == Plan(0, VideoConf(), dict.fromkeys(STAGES, place), "p")


SHARED = nodes(
    a_node("one", "host", "127.0.0.1"),
    a_node("two", "edge", "127.0.0.1"),
    a_node("three", "cloud", "127.0.0.1"),
    a_node("four", "edge", "127.0.0.1"),
)


def test_nodes_that_share_an_address_are_told_apart_by_role_or_name() -> None:
    def found(**place: str) -> str:
        return judge(an_answer(**place), SHARED).flow_mapping["face_detection"].node

    assert found(role="host", ip="127.0.0.1") == "one"
    assert found(role="cloud", ip="127.0.0.1") == "three"
    assert found(role="edge", ip="127.0.0.1", node="four") == "four"
    assert found(role="edge", ip="two") == "two"
    with pytest.raises(BadPlan, match=r"two, four share the address 127\.0\.0\.1"):
        found(role="edge", ip="127.0.0.1")


def test_the_generator_may_stand_in_the_mapping() -> None:
    mapping = {**an_answer(), "SingleFrameGenerator": an_answer()["face_detection"]}
    assert set(judge(mapping).flow_mapping) == set(STAGES)


def changed(stage: str, **change: Any) -> dict[str, Any]:
    mapping = an_answer()
    return {**mapping, stage: {**mapping[stage], **change}}


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({}, "flow_mapping.face_detection: is missing"),
        ({"face_detection": an_answer()["face_detection"]}, "flow_mapping.face_alignment: is missing"),
        ({**an_answer(), "car": an_answer()["face_detection"]}, "flow_mapping.car: is no stage of the DAG"),
        (changed("face_alignment", model_id=1), "flow_mapping.face_alignment.model_id: is 1; the stage has 0 to 0"),
        (changed("face_detection", node_role="cloud"), "face_detection: 10.0.0.1 is host of this job, not cloud"),
        (changed("face_detection", node_role="edge"), "face_detection: 10.0.0.1 is host of this job, not edge"),
        (changed("face_detection", node_ip="10.9.9.9"), "flow_mapping.face_detection: There is no node 10.9.9.9"),
        (changed("face_detection", node="cloud0"), "There is no node cloud0 at 10.0.0.1"),
        (None, "flow_mapping: is null"),
    ],
)
def test_a_mapping_that_cannot_be_is_refused(mapping: object, message: str) -> None:
    with pytest.raises(BadPlan) as caught:
        judge(mapping)
    assert message in caught.value.message


def test_a_middle_model_may_be_chosen_where_there_is_one() -> None:
    assert judge(changed("face_detection", model_id=2)).flow_mapping["face_detection"].model_id == 2


def test_a_node_that_is_offline_is_refused() -> None:
    offline = a_node("edge0", "host", "10.0.0.1", online=False)
    with pytest.raises(BadPlan, match=r"flow_mapping\.face_detection: edge0 is offline"):
        judge(an_answer(), nodes(offline, CLOUD))


def test_a_node_that_does_not_serve_the_stage_is_refused() -> None:
    half = a_node("edge0", "host", "10.0.0.1", services=["face_detection"])
    with pytest.raises(BadPlan, match=r"flow_mapping\.face_alignment: edge0 does not serve face_alignment"):
        judge(an_answer(), nodes(half, CLOUD))


def test_a_conf_that_cannot_be_is_refused() -> None:
    with pytest.raises(BadPlan, match=r"video_conf\.fps: is 0"):
        judge(an_answer(), conf={"fps": 0})


@pytest.mark.parametrize(
    ("source", "fps", "resolution"),
    [
        ({"fps": 12.0, "width": 480, "height": 270}, 12.0, "360p"),
        ({"fps": 30.0, "width": 1920, "height": 1080}, 24.0, "480p"),
        ({"fps": 23.976, "height": 240}, 24.0, "240p"),
        ({"fps": 0.0, "height": 0}, 24.0, "480p"),
        ({}, 24.0, "480p"),
        (None, 24.0, "480p"),
    ],
)
def test_no_plan_has_more_than_the_source_gives(source: dict[str, float] | None, fps: float, resolution: str) -> None:
    """Whoever made it: policies of others, the simple ones of the product, and users."""
    plan = validate_plan(CONF, an_answer(), dag=a_dag_info(), resource_info=THREE, source=source)
    assert (plan.video_conf.fps, plan.video_conf.resolution) == (fps, resolution)
