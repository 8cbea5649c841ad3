"""The product's policies: what each decides, step by step."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from app.video.errors import BadPlan, UnknownPolicy
from app.video.model.report import PlanResult
from app.video.scheduling.contract import LIMIT_S, Measured, ResourceInfo
from app.video.scheduling.feedback import critical_path_s, fps_steps, measure_delay_s
from app.video.scheduling.plan_validation import validate_plan
from app.video.scheduling.registry import PRODUCT, policy_of
from tests.harness.video.scheduling_cases import (
    CLOUD,
    EDGE,
    HOST,
    STAGES,
    a_dag_info,
    a_node,
    a_question,
    a_result,
    facts,
    nodes,
)

HI = 0.3
IN_BAND, SLOW, FAST = 0.27, 0.5, 0.1


class Job:
    """Of one policy, called again and again as the product does."""

    def __init__(self, policy: str, **changes: Any) -> None:
        self.policy, self.changes = policy, changes
        self.state: dict[str, Any] = {"last_plan": None, "profile": changes.pop("profile", [])}

    def call(self, delay: float | None = None, **changes: Any) -> dict[str, Any]:
        """The plan, as it is kept."""
        result = None if delay is None else a_result(delay)
        question = a_question(self.policy, last_plan_res=result, **{**self.changes, **changes})
        self.state["now"] = 0.0
        conf, mapping = policy_of(self.policy)(**{**question.call, "state": self.state})
        plan = validate_plan(conf, mapping, dag=question.dag, resource_info=question.resource_info)
        written = plan.to_json()
        self.state["last_plan"] = {key: written[key] for key in ("video_conf", "flow_mapping")}
        assert self.state["reason"]
        return self.state["last_plan"]  # type: ignore[no-any-return]

    def step(self, delay: float | None = None, **changes: Any) -> tuple[str, float, str]:
        """Size, frames a second, and the roles' first letters in the order of the stages."""
        return self.shown(self.call(delay, **changes))

    @staticmethod
    def shown(plan: dict[str, Any]) -> tuple[str, float, str]:
        conf = plan["video_conf"]
        return conf["resolution"], conf["fps"], "".join(plan["flow_mapping"][stage]["node_role"][0] for stage in STAGES)


def measured(delay_s: float, *places: str) -> list[Measured]:
    """Each stage takes so long at 480p there, in proportion to the pixels at other sizes."""
    pixels = {"240p": 320 * 240, "360p": 480 * 360, "480p": 640 * 480, "720p": 1280 * 720, "1080p": 1920 * 1080}
    return [
        Measured(
            node=node,
            stage=stage,
            model_id=model,
            resolution=size,
            delay_s=delay_s * count / pixels["480p"],
            bytes=count / 16,
            quality=0.9,
        )
        for node in places
        for stage in STAGES
        for model in range(3)
        for size, count in pixels.items()
    ]


ONLY_CLOUD = nodes(a_node("edge0", "host", "10.0.0.1", services=[]), CLOUD)
ONLY_EDGE = nodes(a_node("edge0", "host", "10.0.0.1", services=[]), EDGE)
HALF_HERE = nodes(a_node("edge0", "host", "10.0.0.1", services=["face_detection"]), CLOUD)
HALF_CLOUD = nodes(HOST, a_node("cloud0", "cloud", "10.0.0.2", services=["face_alignment"]))


@pytest.mark.parametrize("name", sorted(PRODUCT))
def test_where_nothing_serves_a_stage_there_is_no_plan(name: str) -> None:
    question = a_question(resource_info=nodes(a_node("edge0", "host", "10.0.0.1", services=["face_detection"])))
    with pytest.raises(BadPlan):
        validate_plan(*policy_of(name)(**question.call), dag=question.dag, resource_info=question.resource_info)


def test_an_unknown_policy_is_told_with_those_there_are() -> None:
    with pytest.raises(UnknownPolicy) as caught:
        policy_of("x" * 1000)
    assert "stepwise" in caught.value.hint and len(caught.value.message) < 200
    assert LIMIT_S == 1.0


# edge_only, cloud_only


@pytest.mark.parametrize(
    ("policy", "resources", "roles"),
    [
        ("edge_only", nodes(HOST, CLOUD, EDGE), "hh"),
        ("edge_only", ONLY_EDGE, "ee"),
        ("edge_only", ONLY_CLOUD, "cc"),
        ("edge_only", HALF_HERE, "hc"),
        ("cloud_only", nodes(HOST, CLOUD, EDGE), "cc"),
        ("cloud_only", nodes(HOST, EDGE), "hh"),
        ("cloud_only", ONLY_EDGE, "ee"),
        ("cloud_only", HALF_CLOUD, "hc"),
    ],
)
def test_all_is_where_the_name_says_if_it_can(policy: str, resources: ResourceInfo, roles: str) -> None:
    job = Job(policy, resource_info=resources)
    assert job.step() == ("480p", 24.0, roles)
    assert job.step(SLOW) == ("480p", 24.0, roles)


def test_of_several_clouds_the_one_in_use_stays() -> None:
    second = a_node("cloud1", "cloud", "10.0.0.9")
    first = a_node("cloud0", "cloud", "10.0.0.2", online=False)
    job = Job("cloud_only")
    assert job.call(resource_info=nodes(HOST, first, second))["flow_mapping"]["face_detection"]["node"] == "cloud1"
    assert job.call(resource_info=nodes(HOST, CLOUD, second))["flow_mapping"]["face_detection"]["node"] == "cloud1"


# fixed


@pytest.mark.parametrize(
    ("resources", "roles"), [(nodes(HOST, CLOUD, EDGE), "hh"), (ONLY_CLOUD, "cc"), (ONLY_EDGE, "ee"), (HALF_HERE, "hc")]
)
def test_fixed_begins_at_the_host(resources: ResourceInfo, roles: str) -> None:
    job = Job("fixed", resource_info=resources)
    assert job.step() == ("480p", 24.0, roles)
    assert job.step(10.0) == ("480p", 24.0, roles)


def test_fixed_keeps_the_plan_of_another_or_by_hand() -> None:
    job = Job("fixed")
    job.call()
    by_hand = job.call()
    by_hand["video_conf"] |= {"resolution": "240p", "fps": 5.0, "ntracking": 3, "encoder": "H264"}
    cloud = {"model_id": 2, "node_role": "cloud", "node_ip": "10.0.0.2", "node": "cloud0"}
    by_hand["flow_mapping"]["face_detection"] = cloud
    assert job.call()["video_conf"]["ntracking"] == 3
    assert job.call()["flow_mapping"]["face_detection"] == cloud
    assert job.step() == ("240p", 5.0, "ch")


def test_fixed_goes_elsewhere_while_a_node_is_gone_and_comes_back() -> None:
    job = Job("fixed")
    first = job.call()
    host_gone = nodes(a_node("edge0", "host", "10.0.0.1", services=[]), CLOUD)
    assert job.step(resource_info=host_gone) == ("480p", 24.0, "cc")
    assert "but for face_detection, face_alignment" in job.state["reason"]
    assert job.step(resource_info=host_gone) == ("480p", 24.0, "cc")
    assert job.call() == first


# stepwise


def test_stepwise_goes_down_in_the_requirements_order() -> None:
    job = Job("stepwise")
    assert job.step() == ("480p", 24.0, "hh")
    seen = [job.step(SLOW) for _ in range(16)]
    assert seen[1::2] == [
        ("360p", 24.0, "hh"),
        ("240p", 24.0, "hh"),
        ("240p", 15.0, "hh"),
        ("240p", 10.0, "hh"),
        ("240p", 5.0, "hh"),
        ("240p", 5.0, "hc"),
        ("240p", 5.0, "cc"),
        ("240p", 5.0, "cc"),
    ]
    assert "no step is left" in job.state["reason"]


def test_stepwise_goes_up_the_same_way_back() -> None:
    job = Job("stepwise")
    job.call()
    for _ in range(14):
        job.call(SLOW)
    seen = [job.step(FAST) for _ in range(22)]
    assert seen[1::2] == [
        ("240p", 5.0, "hc"),
        ("240p", 5.0, "hh"),
        ("240p", 10.0, "hh"),
        ("240p", 15.0, "hh"),
        ("240p", 24.0, "hh"),
        ("240p", 30.0, "hh"),
        ("360p", 30.0, "hh"),
        ("480p", 30.0, "hh"),
        ("720p", 30.0, "hh"),
        ("1080p", 30.0, "hh"),
        ("1080p", 30.0, "hh"),
    ]


def test_stepwise_waits_for_two_periods_in_a_row() -> None:
    job = Job("stepwise")
    first = job.step()
    for delay in (SLOW, IN_BAND, SLOW, FAST, SLOW, None, IN_BAND, FAST, IN_BAND, FAST):
        assert job.step(delay) == first
    assert job.step(FAST) != first


@pytest.mark.parametrize(
    ("limits", "delay"), [((-1.0, HI), 0.241), ((-1.0, HI), HI), ((0.05, HI), 0.06), ((0.0, HI), 0.001)]
)
def test_stepwise_changes_nothing_within_the_band(limits: tuple[float, float], delay: float) -> None:
    job = Job("stepwise", user_constraint={"delay": limits, "quality": 0.0, "given": {}})
    assert len({job.step(), *(job.step(delay) for _ in range(10))}) == 1


def test_stepwise_tries_a_step_that_failed_ever_less_often() -> None:
    job = Job("stepwise")
    job.call()
    sizes = []
    for _ in range(200):
        is_big = bool(sizes) and sizes[-1] != ("480p", 24.0, "hh")
        sizes.append(job.step(SLOW if is_big else FAST))
    changes = sum(one != two for one, two in pairwise(sizes))
    assert 2 < changes < 20
    late = sum(one != two for one, two in pairwise(sizes[100:]))
    assert late < changes / 2


def test_stepwise_takes_no_more_than_the_source_has() -> None:
    job = Job("stepwise", generator_output={"fps": 12.0, "height": 270})
    assert job.step() == ("360p", 10.0, "hh")
    assert {job.step(FAST) for _ in range(10)} == {("360p", 10.0, "hh")}


def test_stepwise_begins_where_the_profile_foresees_that_it_is_in_time() -> None:
    slow = Job("stepwise", profile=measured(0.5, "edge0", "cloud0"))
    assert slow.step()[0] == "240p"
    assert "foreseen" in slow.state["reason"]
    quick = Job("stepwise", profile=measured(0.01, "edge0", "cloud0"))
    assert quick.step() == ("480p", 24.0, "hh")
    weak_host = Job("stepwise", profile=[*measured(5.0, "edge0"), *measured(0.01, "cloud0")])
    assert weak_host.step() == ("240p", 5.0, "cc")
    hopeless = Job("stepwise", profile=measured(50.0, "edge0", "cloud0"))
    assert hopeless.step() == ("240p", 5.0, "cc")
    assert "none is foreseen to be fast enough" in hopeless.state["reason"]


def test_stepwise_goes_on_from_the_plan_of_another() -> None:
    job = Job("stepwise")
    plan = Job("cloud_only").call()
    plan["video_conf"] |= {"resolution": "720p", "fps": 20.0, "nskip": 3}
    job.state["last_plan"] = plan
    assert job.step(IN_BAND) == ("720p", 20.0, "cc")
    job.call(FAST)
    assert job.step(FAST) == ("720p", 20.0, "hc")


def test_stepwise_without_a_cloud_has_no_step_to_it() -> None:
    job = Job("stepwise", resource_info=nodes(HOST))
    job.call()
    assert [job.step(SLOW) for _ in range(14)][-1] == ("240p", 5.0, "hh")
    assert "no step is left" in job.state["reason"]


def test_stepwise_moves_back_when_the_cloud_goes() -> None:
    job = Job("stepwise")
    job.call()
    for _ in range(14):
        job.call(SLOW)
    assert job.step(SLOW, resource_info=nodes(HOST))[2] == "hh"


# aimd


def test_aimd_goes_up_by_one_and_down_by_half() -> None:
    job = Job("aimd")
    assert job.step() == ("480p", 24.0, "cc")
    index = job.state["index"]
    job.call(FAST)
    assert job.state["index"] == index + 1
    job.call(SLOW)
    assert job.state["index"] == (index + 1) // 2
    job.call(IN_BAND)
    assert job.state["index"] == (index + 1) // 2


def test_aimds_error_is_squared_when_late() -> None:
    job = Job("aimd")
    job.call()
    job.call(HI + 0.5)
    assert "error +0.250: late" in job.state["reason"]
    job.call(HI - 0.2)
    assert "error -0.200: in time" in job.state["reason"]


def test_aimd_ends_at_the_last_step_and_at_the_first() -> None:
    job = Job("aimd")
    job.call()
    assert [job.step(FAST) for _ in range(20)][-1] == ("1080p", 30.0, "cc")
    assert [job.step(SLOW) for _ in range(6)][-1] == ("240p", 5.0, "cc")
    assert job.step(None) == ("240p", 5.0, "cc")


def test_aimd_begins_where_the_profile_foresees_that_it_is_in_time() -> None:
    assert Job("aimd", profile=measured(0.5, "edge0", "cloud0")).step()[0] == "240p"
    assert Job("aimd", profile=measured(0.01, "edge0", "cloud0")).step()[:2] == ("480p", 24.0)


def test_aimd_takes_no_more_than_the_source_has() -> None:
    job = Job("aimd", generator_output={"fps": 15.0, "height": 360})
    job.call()
    assert [job.step(FAST) for _ in range(20)][-1] == ("360p", 15.0, "cc")
    assert Job("aimd", generator_output={"fps": 2.0}).step()[:2] == ("240p", 5.0)


def test_aimd_goes_on_from_the_plan_of_another() -> None:
    job = Job("aimd")
    plan = Job("edge_only").call()
    plan["video_conf"] |= {"resolution": "720p", "fps": 20.0}
    job.state["last_plan"] = plan
    assert job.step(IN_BAND) == ("480p", 30.0, "cc")


# What they go by


@pytest.mark.parametrize(
    ("result", "delay"),
    [
        (None, None),
        (PlanResult(delay={}), None),
        (a_result(0.4, e2e_p50=0.2), 0.4),
        (PlanResult(delay={"face_detection": 1.0}, e2e_p50=0.2), 0.2),
        (PlanResult(delay={"face_detection": 0.1, "face_alignment": 0.2}), pytest.approx(0.3)),
        (PlanResult(delay={"face_detection": 0.1}, e2e_p95=0.4, frames=0), None),
    ],
)
def test_the_delay_is_that_of_the_slower_frames(result: PlanResult | None, delay: float | None) -> None:
    assert measure_delay_s(a_dag_info(), result) == delay


def test_of_stages_side_by_side_the_slower_counts() -> None:
    dag = a_dag_info()
    dag["flow"] = [dag["generator"], "a", "b", "c"]
    dag["stages"] = {"a": facts(), "b": facts(), "c": facts("a", "b")}
    assert critical_path_s(dag, {"a": 0.1, "b": 0.5, "c": 0.2}) == pytest.approx(0.7)


def test_frame_rates_end_at_the_sources() -> None:
    assert fps_steps(None)[-1] == 30.0
    assert fps_steps(23.976)[-1] == 24.0
    assert fps_steps(2.0) == [2.0]
