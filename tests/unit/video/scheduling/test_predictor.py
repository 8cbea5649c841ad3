"""Predicted delay, rate and quality of a plan."""

from __future__ import annotations

from typing import Any

import pytest

from app.video.model.plan import Encoder, VideoConf
from app.video.scheduling.contract import DagInfo, Measured
from app.video.scheduling.cuts import mappings, splits
from app.video.scheduling.predictor import (
    FRAME_S,
    GUESSED_MBPS,
    LATENCY_S,
    OWN_LATENCY_S,
    Prediction,
    predict,
    predict_cuts,
)
from app.video.scheduling.profile_model import ENCODE_S, GUESSED_S, JPEG_BYTES, ProfileModel, compute_kept_quality
from tests.harness.video.simulated_job import DAG, fixed_plan, node, profile, resources, service_s

HERE = {"face_detection": "edge0", "face_alignment": "edge0"}
THERE = {"face_detection": "cloud0", "face_alignment": "cloud0"}
BOTH = {"face_detection": "edge0", "face_alignment": "cloud0"}
CONF = VideoConf("480p", 24.0)
FORKED: DagInfo = {
    "generator": "SingleFrameGenerator",
    "flow": ["SingleFrameGenerator", "a", "b", "c", "d"],
    "input": {},
    "stages": {
        name: {"kind": "x", "n_models": 1, "before": before, "pictures": True}
        for name, before in (("a", []), ("b", ["a"]), ("c", ["a"]), ("d", ["b", "c"]))
    },
}


def _predicted(places: dict[str, str], conf: VideoConf = CONF, **changed: Any) -> Prediction:
    return predict(
        **{
            "dag": DAG,
            "video_conf": conf,
            "flow_mapping": fixed_plan(places, conf.resolution)[1],
            "resource_info": resources(8.0),
            "profile": profile(),
            **changed,
        }
    )


def _row(stage: str, seconds: float, **changed: Any) -> Measured:
    row = {
        "node": "edge0",
        "stage": stage,
        "model_id": 0,
        "resolution": "480p",
        "delay_s": seconds,
        "bytes": 18900.0,
        "quality": 0.97,
    }
    return {**row, **changed}  # type: ignore[return-value, typeddict-item]


def test_what_was_measured_as_hardly_any_time_limits_nothing() -> None:
    """At another size it is none at all."""
    rows = [_row(stage, 5e-324, node="cloud0", resolution="720p", bytes=1.0) for stage in THERE]
    prediction = _predicted(THERE, profile=rows)
    assert (prediction.fps, prediction.bottleneck) == (CONF.fps, "node edge0")


def test_at_the_host_a_frame_takes_its_stages_and_no_bytes_go_anywhere() -> None:
    prediction = _predicted(HERE)
    seconds = [service_s(stage, "edge0", 0, "480p") for stage in HERE]
    assert prediction.delay_s == pytest.approx(FRAME_S + sum(seconds) + 2 * OWN_LATENCY_S)
    assert (prediction.bytes_up, prediction.bottleneck, prediction.is_measured) == (0.0, "node edge0", True)
    assert prediction.fps == pytest.approx(1 / (FRAME_S + sum(seconds)))


def test_the_picture_goes_once_to_a_node_that_runs_several_stages() -> None:
    prediction = _predicted(THERE)
    way = JPEG_BYTES["480p"] * 8 / 8e6
    assert prediction.bytes_up == JPEG_BYTES["480p"]
    assert prediction.by_stage["face_detection"] == pytest.approx(
        way + LATENCY_S + ENCODE_S[Encoder.JPEG]["480p"] + service_s("face_detection", "cloud0", 0, "480p")
    )
    assert prediction.by_stage["face_alignment"] == pytest.approx(
        LATENCY_S + service_s("face_alignment", "cloud0", 0, "480p")
    )


def test_what_limits_the_rate_is_named_and_skipping_frames_helps_it() -> None:
    slow = _predicted(THERE, resource_info=resources(2.0))
    assert slow.bottleneck == "link to cloud0"
    assert slow.fps == pytest.approx(2e6 / 8 / JPEG_BYTES["480p"])
    skipping = _predicted(THERE, VideoConf("480p", 24.0, nskip=1), resource_info=resources(2.0))
    assert skipping.fps == pytest.approx(min(24.0, 2 * slow.fps))
    assert skipping.quality == pytest.approx(slow.quality * 0.989)


def test_h264_saves_bytes_and_its_packets_do_not_wait_for_answers_but_the_host_encodes_them() -> None:
    slow = resources(2.0)
    jpeg, h264 = (_predicted(THERE, VideoConf("480p", 1000.0, encoder=one), resource_info=slow) for one in Encoder)
    assert h264.bytes_up < 0.3 * jpeg.bytes_up
    assert h264.link_s < 0.3 * jpeg.link_s
    assert h264.fps > 1.1 / h264.by_stage["face_detection"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(ENCODE_S, Encoder.H264, dict.fromkeys(ENCODE_S[Encoder.H264], 0.2))
        costly = _predicted(THERE, VideoConf("480p", 1000.0, encoder=Encoder.H264))
    assert costly.bottleneck == "node edge0"
    assert costly.fps == pytest.approx(1 / (0.2 + FRAME_S))


def test_who_waits_and_who_else_computes_make_it_slower() -> None:
    quiet = _predicted(HERE)
    waiting = {"n_process": 1, "cpu_ratio": 0.0, "mem_ratio": 0.1, "queue": 3}
    queued = _predicted(
        HERE, resource_info={"ip-edge0": node("edge0", "host", service=dict.fromkeys(DAG["stages"], waiting))}
    )
    assert queued.delay_s == pytest.approx(
        quiet.delay_s + 3 * sum(service_s(stage, "edge0", 0, "480p") for stage in HERE)
    )
    busy = _predicted(HERE, resource_info={"ip-edge0": node("edge0", "host", cpu_ratio=1.0)})
    assert 1 / busy.fps - FRAME_S == pytest.approx(3 * (1 / quiet.fps - FRAME_S))
    own = _predicted(HERE, resource_info={"ip-edge0": node("edge0", "host", cpu_ratio=1.0, video_ratio=0.95)})
    assert own.fps == quiet.fps, "runners of video jobs are not others"


def test_two_processes_keep_up_twice_the_rate() -> None:
    two = {"n_process": 2, "cpu_ratio": 0.0, "mem_ratio": 0.1, "queue": 0}
    prediction = _predicted(
        HERE, resource_info={"ip-edge0": node("edge0", "host", service=dict.fromkeys(DAG["stages"], two))}
    )
    assert prediction.fps == pytest.approx(min(24.0, 2 * _predicted(HERE).fps))


def test_corrections_multiply_what_was_predicted_of_computing() -> None:
    plain = _predicted(HERE)
    prediction = _predicted(HERE, corrections={"face_detection@edge0": 2.0})
    assert prediction.delay_s - plain.delay_s == pytest.approx(service_s("face_detection", "edge0", 0, "480p"))


def test_branches_run_beside_each_other() -> None:
    rows = [_row(name, seconds) for name, seconds in (("a", 0.01), ("b", 0.1), ("c", 0.02), ("d", 0.03))]
    places = {name: {"model_id": 0, "node_role": "host", "node_ip": "ip-edge0"} for name in "abcd"}
    here = {"ip-edge0": node("edge0", "host")}
    prediction = predict(dag=FORKED, video_conf=CONF, flow_mapping=places, resource_info=here, profile=rows)
    assert prediction.delay_s == pytest.approx(FRAME_S + 0.14 + 3 * OWN_LATENCY_S)


def test_cuts_of_a_line_and_of_a_graph_send_nothing_back_to_the_host() -> None:
    assert len(splits(DAG)) == 3
    assert sorted(map(sorted, splits(FORKED)), key=lambda stages: (len(stages), stages[:1] == ["b"])) == [
        [],
        ["d"],
        ["c", "d"],
        ["b", "d"],
        ["b", "c", "d"],
        ["a", "b", "c", "d"],
    ]


def test_cuts_are_told_fastest_first_and_only_of_nodes_that_are_online() -> None:
    cuts = predict_cuts(dag=DAG, video_conf=CONF, resource_info=resources(20.0), profile=profile())
    assert [one.delay_s for one in cuts] == sorted(one.delay_s for one in cuts)
    assert {place["node"] for place in cuts[0].flow_mapping.values()} == {"cloud0"}
    assert len(cuts) == 3
    assert (
        len(predict_cuts(dag=DAG, video_conf=CONF, resource_info=resources(20.0, online=False), profile=profile())) == 1
    )
    assert (
        len(predict_cuts(dag=DAG, video_conf=CONF, resource_info=resources(20.0, service={}), profile=profile())) == 1
    )


def test_where_no_cut_can_be_each_stage_is_put_where_it_is_served() -> None:
    served = {"n_process": 1, "cpu_ratio": 0.0, "mem_ratio": 0.1}
    one, other = {"face_detection": served}, {"face_alignment": served}
    nodes: Any = {
        "ip-edge0": node("edge0", "host", service={}),
        "ip-edge1": node("edge1", "edge", 5.0, service=one),
        "ip-cloud0": node("cloud0", "cloud", 20.0, service=other),
        "ip-cloud1": node("cloud1", "cloud", 20.0, service=other, online=False),
    }
    (mapping,) = mappings(DAG, nodes, 2, {"edge", "cloud"})
    assert {stage: (place["node"], place["model_id"]) for stage, place in mapping.items()} == {
        "face_detection": ("edge1", 2),
        "face_alignment": ("cloud0", 0),
    }
    assert mappings(DAG, {**nodes, "ip-edge1": node("edge1", "edge", service={})}, 0, {"edge", "cloud"}) == []


def test_what_was_seen_of_nodes_holds_for_all_plans_that_use_the_same() -> None:
    seen = {"wait@cloud0": 3.0, "pace@cloud0": 0.1}
    assert _predicted(THERE, corrections=seen).delay_s == pytest.approx(3 * _predicted(THERE).delay_s)
    assert _predicted(THERE, corrections=seen).fps < _predicted(THERE).fps
    assert _predicted(BOTH, corrections=seen) == _predicted(BOTH)


def test_a_plan_that_names_a_node_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="cloud0"):
        _predicted(THERE, resource_info={"ip-edge0": node("edge0", "host")})


@pytest.mark.parametrize("changed", [{"profile": []}, {"resource_info": resources(None)}])
def test_a_guess_is_said_to_be_one(changed: dict[str, Any]) -> None:
    assert _predicted(THERE).is_measured
    prediction = _predicted(THERE, **changed)
    assert not prediction.is_measured
    assert prediction.delay_s > JPEG_BYTES["480p"] * 8e-6 / GUESSED_MBPS


def test_times_that_were_not_measured_are_guessed_from_the_nearest_that_were() -> None:
    nobody = ProfileModel([])
    assert nobody.service_s("edge0", "a", 0, "480p") == (GUESSED_S, False)
    one = ProfileModel([_row("a", 0.1)])
    assert one.service_s("edge0", "a", 0, "480p") == (0.1, True)
    assert one.service_s("edge0", "a", 0, "720p") == (pytest.approx(0.1 * 921600 / 307200), False)
    assert one.service_s("cloud0", "a", 0, "480p") == (0.1, False)
    assert one.service_s("edge0", "a", 2, "480p") == (pytest.approx(0.025), False)
    between = ProfileModel([_row("a", 0.1), _row("a", 0.3, resolution="720p"), _row("a", 0.02, resolution="240p")])
    assert 0.02 < between.service_s("edge0", "a", 0, "360p")[0] < 0.1
    other = ProfileModel([_row("a", 0.1), _row("a", 0.2, node="cloud0"), _row("a", 0.05, node="edge0", model_id=1)])
    assert other.service_s("cloud0", "a", 1, "480p") == (pytest.approx(0.1), False)


def test_quality_is_the_worst_stage_s_and_less_with_fewer_frames() -> None:
    rows = [_row("face_detection", 0.1, quality=0.9), _row("face_alignment", 0.1, quality=0.8)]
    assert _predicted(HERE, profile=rows).quality == pytest.approx(0.8)
    assert compute_kept_quality(0, 0) == 1.0
    assert compute_kept_quality(1, 0) == pytest.approx(0.989)
    assert compute_kept_quality(4, 0) == pytest.approx(0.961)
    assert compute_kept_quality(4, 0) < compute_kept_quality(0, 4) < 1.0
    assert compute_kept_quality(9, 0) > compute_kept_quality(120, 120) > 0
