"""Plans from outside: what is read, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from app.video.errors import BadPlan
from app.video.model.plan import Encoder, Plan, Role, StagePlace, VideoConf, read_flow_mapping, read_video_conf

CONF = {"resolution": "360p", "fps": 30, "nskip": 1, "ntracking": 5, "encoder": "H264"}
PLACE = {"model_id": 0, "node_role": "host", "node_ip": "192.168.56.102"}


def test_a_flat_conf_is_read() -> None:
    assert read_video_conf(CONF) == VideoConf("360p", 30.0, 1, 5, Encoder.H264)
    assert read_video_conf(VideoConf().to_json()) == VideoConf()


def test_what_a_conf_leaves_out_is_the_default() -> None:
    assert read_video_conf({"resolution": "720p"}) == VideoConf("720p")


def test_the_requirements_form_by_stage_is_read() -> None:
    conf = {"resolution": "480p", "fps": 30, "encoder": "H264"}
    read = read_video_conf({"face_detection": conf, "face_alignment": dict(conf)})
    assert read == VideoConf("480p", 30.0, encoder=Encoder.H264)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, "video_conf: is null"),
        ({}, "video_conf: is empty"),
        ({"resolution": "144p"}, "video_conf.resolution: '144p' is not known"),
        ({"resolution": 480}, "video_conf.resolution: 480 is not known"),
        ({"resolution": ["480p"]}, "video_conf.resolution: a list is not known"),
        ({"fps": 0}, "video_conf.fps: is 0"),
        ({"fps": 121}, "video_conf.fps: is 121"),
        ({"fps": "24"}, "video_conf.fps: is '24'"),
        ({"fps": float("nan")}, "video_conf.fps: is nan"),
        ({"nskip": -1}, "video_conf.nskip: is -1"),
        ({"nskip": 121}, "video_conf.nskip: is 121"),
        ({"ntracking": 1.5}, "video_conf.ntracking: is 1.5"),
        ({"ntracking": True}, "video_conf.ntracking: is true"),
        ({"encoder": "h265"}, "video_conf.encoder: 'h265' is not known"),
        ({"size": 1}, "video_conf.size: is not known"),
        ({"a": CONF, "b": {**CONF, "fps": 10}}, "video_conf.b: is another one than a's"),
        ({"a": CONF, "b": {"fps": "x"}}, "video_conf.b.fps: is 'x'"),
        ({"a": CONF, "fps": 1}, "video_conf.a: is not known"),
        ({f"s{at}": CONF for at in range(65)}, "video_conf: has 65 entries"),
    ],
)
def test_a_conf_that_is_none_is_refused(data: object, message: str) -> None:
    with pytest.raises(BadPlan) as caught:
        read_video_conf(data)
    assert message in caught.value.message and caught.value.status == 400


def test_a_mapping_is_read_with_or_without_the_nodes_name() -> None:
    read = read_flow_mapping({"a": PLACE, "b": {**PLACE, "node_role": "cloud", "node": "cloud0", "model_id": 2}})
    assert read == {
        "a": StagePlace(0, Role.HOST, "192.168.56.102"),
        "b": StagePlace(2, Role.CLOUD, "192.168.56.102", "cloud0"),
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_id": 3}, "flow_mapping.a.model_id: is 3; it must be 0 to 2"),
        ({"model_id": -1}, "flow_mapping.a.model_id: is -1"),
        ({"model_id": "0"}, "flow_mapping.a.model_id: is '0'"),
        ({"model_id": True}, "flow_mapping.a.model_id: is true"),
        ({"node_role": "fog"}, "flow_mapping.a.node_role: 'fog' is not known"),
        ({"node_role": None}, "flow_mapping.a.node_role: null is not known"),
        ({"node_ip": ""}, "flow_mapping.a.node_ip: ''"),
        ({"node_ip": 1}, "flow_mapping.a.node_ip: is 1"),
        ({"node_ip": "x" * 256}, "flow_mapping.a.node_ip: "),
        ({"node": 5}, "flow_mapping.a.node: is 5"),
        ({"port": 5}, "flow_mapping.a.port: is not known"),
    ],
)
def test_a_place_that_is_none_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(BadPlan) as caught:
        read_flow_mapping({"a": {**PLACE, **change}})
    assert message in caught.value.message


@pytest.mark.parametrize("key", ["model_id", "node_role", "node_ip"])
def test_each_part_of_a_place_is_needed(key: str) -> None:
    with pytest.raises(BadPlan, match=f"flow_mapping.a.{key}: is missing"):
        read_flow_mapping({"a": {name: value for name, value in PLACE.items() if name != key}})


@pytest.mark.parametrize("data", [None, [], "x", {"a b": PLACE}, {"a": None}, {1: PLACE}])
def test_a_mapping_that_is_none_is_refused(data: object) -> None:
    with pytest.raises(BadPlan, match=r"^flow_mapping"):
        read_flow_mapping(data)


def test_a_plan_comes_back_as_it_went() -> None:
    plan = Plan(3, read_video_conf(CONF), read_flow_mapping({"a": PLACE}), "fixed")
    assert Plan.from_json(plan.to_json()) == plan
