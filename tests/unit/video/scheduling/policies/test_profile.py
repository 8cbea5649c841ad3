"""The profile policy, on simulated links and nodes and call by call."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from app.video.errors import BadPlan
from app.video.model.plan import VideoConf
from app.video.scheduling import search
from app.video.scheduling.contract import Answer, Measured
from app.video.scheduling.plan_memory import PlanMemory
from app.video.scheduling.plan_validation import validate_plan
from app.video.scheduling.policies.profile import profile as policy
from app.video.scheduling.predictor import Predictor
from app.video.scheduling.profile_model import PIXELS, ProfileModel
from tests.harness.variants import exhaustive
from tests.harness.video.simulated_job import (
    DAG,
    FPS,
    HI,
    TRUE_QUALITY,
    Ran,
    SimulatedJob,
    call_policy,
    fixed_plan,
    node,
    profile,
    resources,
    service_s,
)

HERE = {"face_detection": "edge0", "face_alignment": "edge0"}
THERE = {"face_detection": "cloud0", "face_alignment": "cloud0"}
FIXED = {
    "edge only": fixed_plan(HERE, "720p"),
    "cloud only": fixed_plan(THERE, "720p"),
    "480p": fixed_plan(THERE, "480p"),
}


def _always(plan: Any) -> Callable[..., Answer]:
    return lambda **_: plan


def _fast(_: float) -> float:
    return 20.0


def _slow(_: float) -> float:
    return 2.0


def _stepped(at: float) -> float:
    return 20.0 if at % 40 < 20 else 2.0


def _failing(at: float) -> float:
    return 20.0 if at % 40 < 20 else 0.4


def _asked(state: dict[str, Any], **changed: Any) -> Answer:
    return call_policy(policy, state, **changed)


def _next(state: dict[str, Any], answer: Answer, now: float) -> dict[str, Any]:
    """As the policy runner gives it at the next call: through JSON."""
    last = {"video_conf": answer[0], "flow_mapping": answer[1]}
    return {**json.loads(json.dumps(state)), "last_plan": last, "profile": profile(), "now": now}


def _started(**changed: Any) -> tuple[dict[str, Any], Answer]:
    state: dict[str, Any] = {"last_plan": None, "profile": profile(), "now": 0.0}
    return state, _asked(state, **changed)


def _result(**changed: Any) -> dict[str, Any]:
    return {
        "delay": {"face_detection": 0.06, "face_alignment": 0.02},
        "server": {"face_detection": 0.02, "face_alignment": 0.005},
        "e2e_p50": 0.09,
        "e2e_p95": 0.1,
        "fps": 24.0,
        "frames": 24,
        "dropped": 0,
        "violations": 0,
        "bytes_up": 42.8e3,
        **changed,
    }


LATE = {
    "delay": {"face_detection": 0.8, "face_alignment": 0.02},
    "e2e_p50": 0.7,
    "e2e_p95": 0.9,
    "violations": 20,
    "fps": 5.0,
}


@pytest.mark.slow
def test_on_a_link_in_steps_it_has_at_most_half_the_violations_of_the_best_fixed_plan() -> None:
    job = SimulatedJob(_stepped, hi=HI, seconds=60)
    best = min(job.run(_always(plan)).violation_rate(HI) for plan in FIXED.values())
    ran = job.run(policy)
    assert best > 0.1
    assert ran.violation_rate(HI) <= 0.5 * best


@pytest.mark.slow
@pytest.mark.parametrize("mbps", [*exhaustive(_fast, ids="fast"), pytest.param(_slow, id="slow")])
def test_on_a_constant_link_it_changes_seldom_and_is_as_good_as_can_be(mbps: Callable[[float], float]) -> None:
    job = SimulatedJob(mbps, hi=HI, seconds=60)
    ran = job.run(policy)
    in_time = [one for one in _possible(job) if one.violation_rate(HI) <= 0.02]
    assert len(ran.changed_at) <= 6
    assert ran.quality >= 0.98 * max(one.quality for one in in_time)
    assert ran.violation_rate(HI) < 0.1


def _possible(job: SimulatedJob) -> list[Ran]:
    return [
        job.run(_always(fixed_plan(places, resolution, 0, nskip=nskip, encoder=encoder)))
        for places in (HERE, THERE)
        for resolution in ("360p", "480p", "720p")
        for nskip in (0, 1, 4)
        for encoder in ("JPEG", "H264")
    ]


@pytest.mark.slow
def test_it_comes_back_to_the_better_plan_after_the_link_has_risen_again() -> None:
    ran = SimulatedJob(_failing, hi=HI, seconds=80).run(policy)
    falls = [at for at in ran.changed_at if 20 <= at < 24]
    rises = [at for at in ran.changed_at if 40 <= at < 60]
    assert falls, "it reacts within four seconds"
    assert rises, "and uses what the link gives again"


def test_without_a_profile_it_learns_what_stages_take() -> None:
    job = SimulatedJob(_fast, hi=HI, seconds=40, rows=[], slowed=lambda _: 3.0)
    ran = job.run(policy)
    late = [took > HI for at, took in ran.e2e if at > 15]
    assert sum(late) <= 0.05 * len(late)


@pytest.mark.parametrize("rows", [None, []], ids=["with a profile", "without"])
def test_times_ten_times_the_expected_are_believed_after_two_reports(rows: list[Measured] | None) -> None:
    job = SimulatedJob(lambda _: 0.5, hi=HI, seconds=40, rows=rows, slowed=lambda _: 10.0)
    ran = job.run(policy)
    late = [took > HI for at, took in ran.e2e if at > 10]
    assert sum(late) <= 0.05 * len(late)
    assert all(abs(told / measured - 1) < 0.5 for measured, told in ran.foretold[len(ran.foretold) // 2 :])


@pytest.mark.parametrize("rows", [None, []], ids=["with a profile", "without"])
def test_two_reports_of_a_slower_processor_correct_what_is_expected_of_it(rows: list[Measured] | None) -> None:
    rows = profile() if rows is None else rows
    alone: dict[str, Any] = {"ip-edge0": node("edge0", "host")}
    state: dict[str, Any] = {"last_plan": None, "profile": rows, "now": 0.0}
    answer = fixed_plan(HERE, "480p", nskip=4)
    seconds = {"face_detection": 0.5, "face_alignment": 0.1}
    late = _result(delay=seconds, server=seconds, e2e_p50=0.61, e2e_p95=0.7, frames=10, violations=10, fps=1.6)
    for now in (20.0, 26.0):
        state = {**_next(state, answer, now), "profile": rows}
        _asked(state, resource_info=alone, last_plan_res=late)
    memory = PlanMemory(state)
    conf = VideoConf("480p", FPS, 4)
    predictor = Predictor(DAG, alone, ProfileModel(memory.profile(rows)), memory.corrections)
    prediction = predictor.predict(conf, answer[1])
    assert prediction.delay_s == pytest.approx(0.61, rel=0.1)
    assert prediction.fps == pytest.approx(1.6 * 5, rel=0.1)
    of_pixels = PIXELS["360p"] / PIXELS["480p"]
    of_profile = service_s("face_detection", "edge0", 0, "360p") / service_s("face_detection", "edge0", 0, "480p")
    at_360p = predictor.alone(replace(conf, resolution="360p"), answer[1])["face_detection"]
    assert at_360p == pytest.approx(0.5 * (of_profile if rows else of_pixels), rel=0.1), (
        "another size is corrected, too"
    )


def test_a_plan_that_brings_few_of_the_frames_it_promised_is_not_believed_to_keep_up() -> None:
    """Its stages take as long as they should: what is short is something that nobody measures."""
    state: dict[str, Any] = {"last_plan": None, "profile": profile(), "now": 0.0}
    answer = fixed_plan(THERE, "480p", nskip=1)
    late = _result(
        server={"face_detection": 0.009, "face_alignment": 0.002},
        queue={"face_detection": 0.37},
        delay={"face_detection": 0.42, "face_alignment": 0.03},
        e2e_p50=0.92,
        e2e_p95=1.2,
        fps=2.0,
        frames=10,
        violations=10,
        bytes_up=18.9e3,
    )
    taken = []
    for now in (4.0, 20.0, 40.0):
        state = _next(state, answer, now)
        taken.append(_asked(state, last_plan_res=late))
    assert state["learned"]["corrections"]["pace@cloud0"] < 0.1
    assert {place["node"] for place in taken[-1][1].values()} == {"edge0"}


def test_frames_wait_before_a_plan_that_does_not_keep_up_and_its_delay_has_that() -> None:
    conf, places = fixed_plan(HERE, "720p", nskip=1)
    predictor = Predictor(DAG, resources(20.0), ProfileModel(profile()))
    told = predictor.predict(VideoConf(conf["resolution"], FPS, conf["nskip"]), places)
    short = search.assess(told, search.SearchGoal(HI, 0.0, FPS))
    assert told.fps < FPS and not short.keeps_up
    assert short.prediction.delay_s == pytest.approx(told.delay_s + search.WAITING / (told.fps / 2))
    assert told.delay_s < 0.8 * HI and not short.in_time


def test_what_the_host_did_in_place_of_a_node_teaches_nothing_of_that_node() -> None:
    state, answer = _started()
    slow = {"face_detection": 0.9, "face_alignment": 0.2}
    state = _next(state, answer, 20.0)
    _asked(state, last_plan_res=_result(fallbacks=12, server=slow, delay=slow))
    assert not [key for key in state["learned"]["corrections"] if key.endswith("@cloud0")]


@pytest.mark.parametrize("role", ["edge", "cloud"])
def test_a_plan_goes_on_when_the_role_of_its_node_has_changed(role: str) -> None:
    state, (conf, places) = _started()
    others = {"edge": "cloud", "cloud": "edge"}
    last = conf, {stage: {**place, "node_role": others[role], "node_ip": "old"} for stage, place in places.items()}
    now = {"ip-edge0": node("edge0", "host"), "ip-cloud0": node("cloud0", role, 20.0)}
    answer = _asked(_next(state, last, 20.0), resource_info=now, last_plan_res=_result())
    assert {(place["node"], place["node_role"], place["node_ip"]) for place in answer[1].values()} == {
        ("cloud0", role, "ip-cloud0")
    }
    validate_plan(*answer, dag=DAG, resource_info=now)


@pytest.mark.parametrize(("starved", "idle"), [("cloud0", "edge0"), ("edge0", "cloud0")])
def test_a_node_that_keeps_frames_longer_than_it_says_is_left_for_one_that_does_not(starved: str, idle: str) -> None:
    job = SimulatedJob(_fast, hi=HI, seconds=40, starved={starved: 30.0})
    ran = job.run(policy)
    late = [took > HI for at, took in ran.e2e if at > 12]
    assert sum(late) <= 0.05 * len(late)
    assert {nodes for at, nodes in ran.used if at > 30} == {frozenset({idle})}


@pytest.mark.slow
def test_a_slow_node_is_left_and_the_plan_says_why() -> None:
    job = SimulatedJob(lambda _: 1.0, hi=HI, seconds=40, slowed=lambda at: 1.0 if at < 15 else 6.0)
    ran = job.run(policy)
    late = [took > HI for at, took in ran.e2e if at > 25]
    assert sum(late) <= 0.1 * len(late)
    assert any("p95 was" in reason for at, reason in ran.reasons if at > 15)


def test_the_first_plan_is_the_best_that_is_in_time_and_its_reason_has_the_figures() -> None:
    state, (conf, places) = _started()
    assert (conf["resolution"], conf["nskip"]) == ("720p", 0)
    assert {place["node"] for place in places.values()} == {"cloud0"}
    assert "predicted 0.0" in state["reason"]
    assert "of 0.300 s" in state["reason"]
    json.dumps(state)


def test_a_tighter_constraint_takes_effect_at_once() -> None:
    state, answer = _started()
    tight = {"delay": (-1.0, 0.05), "quality": 0.0, "given": {}}
    conf, _ = _asked(_next(state, answer, 1.0), user_constraint=tight, last_plan_res=_result())
    assert conf != answer[0]


def test_the_wanted_quality_comes_before_the_rate() -> None:
    slow = resources(0.05)
    _, (plain, _) = _started(resource_info=slow)
    wish = {"delay": (-1.0, HI), "quality": 0.975, "given": {}}
    _, (good, _) = _started(resource_info=slow, user_constraint=wish)
    assert TRUE_QUALITY[good["resolution"]] >= TRUE_QUALITY[plain["resolution"]]


def test_severe_lateness_is_answered_at_once_and_a_single_late_frame_is_not() -> None:
    state, answer = _started()
    once = _result(e2e_p95=0.31, violations=1)
    assert _asked(_next(state, answer, 20.0), last_plan_res=once) == answer
    state, answer = _started()
    assert _asked(_next(state, answer, 20.0), last_plan_res=_result(**LATE)) != answer


def test_results_of_the_plan_before_are_no_news() -> None:
    state, answer = _started()
    state = _next(state, answer, 20.0)
    second = _asked(state, last_plan_res=_result(**LATE, plan_seq=1))
    state = _next(state, second, 21.0)
    assert _asked(state, last_plan_res=_result(**LATE, plan_seq=1)) == second


def test_something_better_must_be_so_twice_and_not_right_after_a_change() -> None:
    state, answer = _started(resource_info=resources(0.3))
    answers = []
    for now in (1.0, 9.0, 20.0):
        state = _next(state, answer, now)
        answers.append(_asked(state, last_plan_res=_result(bytes_up=0.0, delay={"face_alignment": 0.02}, server={})))
    assert answers[:2] == [answer, answer]
    assert answers[2] != answer
    state, answer = _started(resource_info=resources(0.3))
    assert _asked(_next(state, answer, 20.0)) == answer


def test_a_node_that_is_offline_is_left_at_once() -> None:
    state, answer = _started()
    _, places = _asked(_next(state, answer, 1.0), resource_info=resources(20.0, online=False))
    assert {place["node"] for place in places.values()} == {"edge0"}


def test_a_node_whose_work_fell_back_to_the_host_is_not_used_for_a_while() -> None:
    state, answer = _started()
    state = _next(state, answer, 20.0)
    result = _result(fallbacks=12)
    _, places = _asked(state, last_plan_res=result)
    assert {place["node"] for place in places.values()} == {"edge0"}


def test_where_no_node_serves_the_stages_there_is_no_plan() -> None:
    with pytest.raises(BadPlan, match="No node"):
        _started(resource_info={"ip-edge0": node("edge0", "host", online=False)})


def test_a_decision_takes_little_time_also_with_many_nodes_and_stages() -> None:
    stages = [f"s{number}" for number in range(6)]
    dag = {
        "generator": "SingleFrameGenerator",
        "flow": ["SingleFrameGenerator", *stages],
        "input": {},
        "stages": {
            name: {"kind": "x", "n_models": 3, "before": stages[max(0, place - 1) : place], "pictures": True}
            for place, name in enumerate(stages)
        },
    }
    service = {"n_process": 1, "cpu_ratio": 0.0, "mem_ratio": 0.1}
    many = {
        f"ip-{name}": node(name, role, 5.0, service=dict.fromkeys(stages, service))
        for name, role in [("edge0", "host"), *((f"edge{n}", "edge") for n in range(1, 5)), ("cloud0", "cloud")]
    }
    calls = 0

    def counted(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        return original(*args, **kwargs)

    original, began = Predictor.predict, time.perf_counter()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Predictor, "predict", counted)
        _asked({"profile": [], "now": 0.0}, dag=dag, resource_info=many)
    assert calls <= search.MAX_PREDICTIONS + 40, f"{time.perf_counter() - began} s"


@pytest.mark.parametrize(("still", "is_late"), [(0, True), (200, False)])
def test_frames_in_which_nothing_moved_are_neither_late_nor_missing(still: int, is_late: bool) -> None:
    _, places = fixed_plan(HERE, "480p")
    memory = PlanMemory({"last_plan": None, "profile": profile(), "now": 0.0})
    expected = Predictor(DAG, resources(20.0), ProfileModel(profile())).predict(VideoConf("480p", FPS), places)
    result = _result(fps=1.0, frames=10, dropped=6, still=still)
    assert memory.learn_rate(result, expected, expected.fps, is_severe=False) is is_late
    assert bool([key for key in memory.corrections if key.startswith("pace@")]) is is_late
