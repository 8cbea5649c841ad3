"""From a demand for a plan to the order of a node, on the real database; the policy is a test's or the product's."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from app.bootstrap.container import Container
from app.kit.errors import BadRequest
from app.video import store
from app.video.errors import BadDag, BadPlan, JobEnded, VideoJobNotFound, VideoNotFound
from app.video.model.job import JOBS, JobState
from app.video.model.plan import Plan
from app.video.model.report import Measurement
from app.video.scheduling.policy_messages import Decision
from app.video.scheduling.policy_runner import PolicyRunner
from app.video.service.planner import GAP_S
from tests.harness.video.nodes import USER, Env, a_plan
from tests.harness.video.records import dag, measured


@pytest.fixture
def env(container: Container) -> Env:
    return Env(container)


@pytest.fixture
def policy_runner() -> Iterator[PolicyRunner]:
    made = PolicyRunner(limit_s=60.0)  # a busy machine makes none of the product's policies late
    yield made
    made.close()


def failed(outcome: str) -> Decision:
    return Decision(None, outcome, "It went wrong.", 1000.0, "hash", {})


def schedule(env: Env, uid: str, why: str = "period") -> float:
    return env.planning.schedule(uid, why, now=env.now)


def outcomes(env: Env, uid: str) -> list[str]:
    return [decided.outcome for decided in env.jobs.decisions(USER, uid)][::-1]


def test_a_plan_is_stored_numbered_and_in_the_order_of_the_node_at_once(env: Env) -> None:
    job = env.submit()
    env.settle()
    assert env.content(job.uid)["plan"] is None
    notified: list[str] = []
    env.container.nodes.notify = notified.append
    policy_runner = env.decide_by(a_plan())
    assert schedule(env, job.uid, "start") == 0
    after = env.job(job.uid)
    assert after.state is JobState.EXEC
    assert after.plan == replace(a_plan(), seq=1, policy="profile")
    assert env.content(job.uid)["plan"] == after.plan.to_json()
    assert [host["node"] for host in env.content(job.uid)["hosts"]] == ["edge0", "cloud0"]
    assert notified == ["edge0"]
    (decided,) = env.jobs.decisions(USER, job.uid)
    assert (decided.seq, decided.why, decided.outcome, decided.reason) == (1, "start", "new", "It is fixed.")
    assert (decided.took_ms, decided.inputs_hash, decided.plan) == (1.5, "hash", after.plan.to_json())
    assert after.memory == {"calls": 1}
    (question,) = policy_runner.inputs
    assert question.policy == "profile"
    assert question.state["last_plan"] is None
    assert question.dag["flow"] == dag()["flow"]
    assert question.dag["input"]["face_alignment"]["bbox"] == "face_detection.bbox"
    facts = question.dag["stages"]
    assert (facts["face_detection"]["n_models"], facts["face_alignment"]["n_models"]) == (3, 1)
    assert facts["face_alignment"]["before"] == ["face_detection"]
    assert facts["face_alignment"]["pictures"]
    assert [event.type for event in env.jobs.events(USER, job.uid)] == ["UNSCHED", "EXEC"]


def test_the_policy_is_told_the_last_plan_its_memory_and_what_was_measured(env: Env) -> None:
    job = env.running()
    variants = env.job(job.uid).stages[0].variants
    rows = [
        Measurement("edge0", "face_detection", 0, variants[1][0].sha256, "480p", 0.1, 9000.0, 0.9, 10, "2026-11-22"),
        Measurement("edge0", "face_detection", 0, "f" * 64, "480p", 0.1, 9000.0, 0.9, 10, "2026-11-22"),
        Measurement("edge0", "car_detection", 0, variants[1][0].sha256, "480p", 0.1, 9.0, 0.9, 10, "2026-11-22"),
    ]
    with env.container.database.write() as conn:
        store.put_measurements(conn, rows)
    result = {"delay": {"face_detection": 0.1}, "e2e_p95": 0.2}
    request: Any = {
        "job_uid": job.uid,
        "dag": {},
        "last_plan_result": result,
        "user_constraint": None,
        "asked": 2,
        "generator_output": {"seq": 9, "bytes": 1234.5, "objects": 4, "image": "no figure"},
        "why": "late",
    }
    env.planning.ask(request, node="edge0")
    assert env.sent[-1] == (job.uid, "late")
    policy_runner = env.decide_by(None)
    env.later(2)
    schedule(env, job.uid)
    (question,) = policy_runner.inputs
    assert question.last_plan_res == result
    assert question.generator_output == {"seq": 9, "bytes": 1234.5, "objects": 4}
    assert question.state["calls"] == 1
    assert question.state["now"] == env.now.timestamp()
    assert set(question.state["last_plan"]) == {"video_conf", "flow_mapping"}
    (row,) = question.state["profile"]
    numbers = {variant[0].sha256: number for number, variant in reversed(list(enumerate(variants)))}
    assert (row["node"], row["stage"], row["model_id"]) == ("edge0", "face_detection", numbers[rows[0].model])
    assert question.user_constraint["delay"] == (-1.0, 0.8)
    after = env.job(job.uid)
    assert after.plan is not None
    assert after.plan.seq == 1, "the last plan stays"
    assert outcomes(env, job.uid) == ["new", "same"]


def test_a_job_gets_a_plan_a_second_at_most_and_what_comes_too_early_is_done_once_then(env: Env) -> None:
    job = env.running()
    policy_runner = env.decide_by(None)
    env.later(0.4)
    assert schedule(env, job.uid) == pytest.approx(0.6)
    env.later(0.1)
    assert [schedule(env, job.uid) for _ in range(3)] == [0.0] * 3
    assert policy_runner.inputs == []
    env.later(0.5)
    assert schedule(env, job.uid) == 0.0
    assert len(policy_runner.inputs) == 1
    env.later(0.9)
    assert schedule(env, job.uid) == pytest.approx(0.1), "somebody waits for the next one again"


@pytest.mark.parametrize("outcome", ["late", "raised"])
def test_a_policy_that_was_late_or_raised_is_left_alone_for_a_while(env: Env, outcome: str) -> None:
    job = env.running()
    policy_runner = env.decide_by(failed(outcome), a_plan(cloud=()))
    env.later(2)
    assert schedule(env, job.uid) == 0.0
    kept = env.job(job.uid)
    assert (kept.state, kept.plan and kept.plan.seq) == (JobState.EXEC, 1)
    env.later(2)
    assert schedule(env, job.uid) == pytest.approx(8)
    assert len(policy_runner.inputs) == 1
    env.jobs.choose(USER, job.uid, "edge_only", now=env.now)
    assert schedule(env, job.uid, "policy") == 0.0
    assert len(policy_runner.inputs) == 2, "another policy has done nothing wrong"
    assert outcomes(env, job.uid) == ["new", outcome, "new"]


def test_after_an_answer_that_cannot_be_the_policy_is_asked_again_soon(env: Env) -> None:
    job = env.running()
    policy_runner = env.decide_by(failed("invalid"))
    for _ in range(3):
        env.later(1.1)
        assert schedule(env, job.uid) == 0.0
    assert len(policy_runner.inputs) == 3
    assert env.job(job.uid).plan is not None


def test_a_thread_that_looked_at_the_clock_before_the_other_plans_no_second_time_at_once(env: Env) -> None:
    job = env.submit()
    env.settle()
    env.decide_by(a_plan())
    assert schedule(env, job.uid, "first") == 0
    env.later(-0.002)
    assert schedule(env, job.uid, "second") == pytest.approx(GAP_S + 0.002)
    env.later(-3600)
    assert schedule(env, job.uid, "after the clock was set back") == 0
    assert len(outcomes(env, job.uid)) == 2


def test_of_two_at_the_same_time_the_later_wins(env: Env) -> None:
    job = env.running()
    late, early = a_plan(cloud=()), a_plan(cloud=("face_detection", "face_alignment"))
    outer, inner = env.decide_by(early), None

    def meanwhile() -> None:
        nonlocal inner
        inner = env.decide_by(late)
        env.later(2)
        schedule(env, job.uid, "later")

    outer.meanwhile = meanwhile  # type: ignore[assignment]
    env.later(2)
    schedule(env, job.uid, "earlier")
    assert inner is not None
    after = env.job(job.uid)
    assert after.plan == replace(late, seq=3, policy="profile")
    assert env.content(job.uid)["plan"]["seq"] == 3
    newest = env.jobs.decisions(USER, job.uid)[0]
    assert (newest.seq, newest.why, newest.plan) == (2, "earlier", None)
    assert "overtaken" in newest.reason


def test_what_a_policy_decides_after_another_was_chosen_counts_no_more(env: Env) -> None:
    job = env.running()
    policy_runner = env.decide_by(a_plan(cloud=()))
    policy_runner.meanwhile = lambda: (env.jobs.choose(USER, job.uid, "fixed", now=env.now), None)[1]
    env.later(2)
    schedule(env, job.uid)
    after = env.job(job.uid)
    assert after.plan is not None
    assert (after.plan.seq, after.memory) == (1, {})


def test_a_job_that_ends_while_it_is_planned_stays_ended(env: Env) -> None:
    job = env.running()
    policy_runner = env.decide_by(a_plan(cloud=()))
    policy_runner.meanwhile = lambda: (env.jobs.cancel(USER, job.uid, now=env.now), None)[1]
    env.later(2)
    schedule(env, job.uid)
    after = env.job(job.uid)
    assert (after.state, after.plan and after.plan.seq) == (JobState.DONE, 1)
    calls = len(policy_runner.inputs)
    env.later(2)
    assert schedule(env, job.uid) == schedule(env, "GLOBAL_ID_99.SUB_ID_1") == 0.0
    assert len(policy_runner.inputs) == calls
    env.settle()
    assert env.orders(JOBS, job.uid) == []


def test_while_its_own_node_is_silent_a_job_keeps_its_plan(env: Env) -> None:
    job = env.running()
    policy_runner = env.decide_by(a_plan())
    env.away.add("edge0")
    env.later(40)
    env.report()
    assert schedule(env, job.uid) == 0.0
    assert policy_runner.inputs == []
    env.away.clear()
    env.later(2)
    env.report()
    schedule(env, job.uid)
    assert len(policy_runner.inputs) == 1


def test_while_no_node_serves_a_stage_the_policy_is_not_asked_and_the_job_says_so(env: Env) -> None:
    job = env.submit()
    policy_runner = env.decide_by(a_plan())
    for _ in range(2):
        assert schedule(env, job.uid, "start") == 0.0
        env.later(2)
    assert policy_runner.inputs == []
    assert "No node serves face_detection, face_alignment yet" in env.job(job.uid).reason
    assert [event.type for event in env.jobs.events(USER, job.uid)] == ["UNSCHED", "Note"]
    assert env.jobs.decisions(USER, job.uid) == []
    env.sent.clear()
    env.settle()
    assert (job.uid, "node") in env.sent
    env.later(2)
    schedule(env, job.uid)
    assert env.job(job.uid).state is JobState.EXEC
    assert env.job(job.uid).reason == ""


def test_an_older_demand_is_ignored_and_a_new_runner_counts_anew(env: Env) -> None:
    job = env.running()

    def ask(is_asked: int, why: str = "period") -> int:
        env.sent.clear()
        output = {"seq": is_asked}
        request: Any = {"job_uid": job.uid, "asked": is_asked, "why": why, "generator_output": output}
        env.planning.ask(request, node="edge0")
        return len(env.sent)

    assert [ask(5), ask(4), ask(5), ask(6)] == [1, 0, 1, 1]
    with env.container.database.read() as conn:
        kept = store.get(conn, job.uid)
    assert kept is not None
    assert (kept.asked, kept.job.generator_output) == (6, {"seq": 6})
    assert [ask(1, "start"), ask(2)] == [1, 1]
    env.jobs.cancel(USER, job.uid, now=env.now)
    assert ask(9) == 0


NO_DEMANDS: tuple[tuple[dict[str, Any], type[Exception]], ...] = (
    ({"job_uid": None}, BadRequest),
    ({"job_uid": "GLOBAL_ID_99.SUB_ID_1"}, VideoJobNotFound),
    ({"asked": "1"}, BadRequest),
    ({"why": "__import__('os')"}, BadRequest),
    ({"generator_output": []}, BadRequest),
    ({"last_plan_result": {"delay": {"a": "b"}}}, BadRequest),
    ({"last_plan_result": 4}, BadRequest),
)
"""What is other than in a demand."""


def test_a_demand_that_is_none_is_refused(env: Env) -> None:
    job = env.submit()
    env.sent.clear()
    for changes, error in NO_DEMANDS:
        request: Any = {"job_uid": job.uid, **changes}
        with pytest.raises(error):
            env.planning.ask(request, node="edge0")
        assert env.sent == [], changes
    for other in ({"node": "cloud0"}, {"user": "mallory"}):
        with pytest.raises(VideoJobNotFound):
            env.planning.ask({"job_uid": job.uid}, **other)  # type: ignore[typeddict-item, arg-type]
    assert env.sent == []


def by_hand(plan: Plan) -> tuple[dict[str, Any], dict[str, Any]]:
    written = plan.to_json()
    mapping = {
        stage: {key: place[key] for key in ("model_id", "node_role", "node_ip")}
        for stage, place in written["flow_mapping"].items()
    }
    return written["video_conf"], mapping


def test_a_plan_by_hand_is_in_force_at_once(env: Env) -> None:
    job = env.running()
    conf, mapping = by_hand(a_plan(cloud=()))
    env.planning.give(USER, job.uid, {**conf, "resolution": "720p"}, mapping, now=env.now)
    after = env.job(job.uid)
    assert after.plan is not None
    assert (after.plan.seq, after.plan.policy, after.plan.video_conf.resolution) == (2, "by hand", "720p")
    assert {place.node for place in after.plan.flow_mapping.values()} == {"edge0"}
    assert env.content(job.uid)["plan"] == after.plan.to_json()
    assert outcomes(env, job.uid) == ["new", "new"]
    wrong = {**mapping, "face_detection": {**mapping["face_detection"], "node_role": "cloud"}}
    without = {"face_detection": mapping["face_detection"]}
    for bad_conf, bad_mapping in ((conf, wrong), (conf, without), ({"resolution": "8k"}, mapping), (None, mapping)):
        with pytest.raises(BadPlan):
            env.planning.give(USER, job.uid, bad_conf, bad_mapping, now=env.now)
    assert env.job(job.uid).plan == after.plan
    source = {"fps": 12.0, "width": 320, "height": 240}
    env.planning.ask({"job_uid": job.uid, "generator_output": source}, user=USER)  # type: ignore[typeddict-item]
    env.planning.give(USER, job.uid, conf, mapping, now=env.now)
    limited = env.job(job.uid).plan
    assert limited is not None
    assert (limited.video_conf.fps, limited.video_conf.resolution) == (12.0, "240p"), "no more than the source gives"
    env.jobs.cancel(USER, job.uid, now=env.now)
    with pytest.raises(JobEnded):
        env.planning.give(USER, job.uid, conf, mapping, now=env.now)


@pytest.mark.exhaustive
def test_many_jobs_planned_at_once_each_get_their_plan(env: Env, policy_runner: PolicyRunner) -> None:
    """By the product's own policy, in its process."""
    jobs = [env.submit() for _ in range(20)]
    env.settle()
    env.later(2)
    env.planning.policy_runner = lambda: policy_runner
    threads = [threading.Thread(target=schedule, args=(env, job.uid)) for job in jobs for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for job in jobs:
        after = env.job(job.uid)
        assert after.state is JobState.EXEC, env.jobs.decisions(USER, job.uid)
        assert after.plan is not None
        assert (after.plan.seq, after.plan.policy) == (1, "profile")
        assert set(after.plan.flow_mapping) == {"face_detection", "face_alignment"}
        assert env.content(job.uid)["plan"] == after.plan.to_json()
        assert outcomes(env, job.uid) == ["new"]


def test_each_policy_of_the_product_makes_a_plan(env: Env, policy_runner: PolicyRunner) -> None:
    for policy in ("fixed", "edge_only", "cloud_only", "stepwise", "aimd", "profile"):
        job = env.submit(policy=policy)
        env.settle()
        env.later(2)
        env.planning.policy_runner = lambda: policy_runner
        schedule(env, job.uid)
        assert outcomes(env, job.uid) == ["new"], env.jobs.decisions(USER, job.uid)
        roles = {place.node_role.value for place in (env.job(job.uid).plan or a_plan()).flow_mapping.values()}
        assert policy != "edge_only" or "cloud" not in roles
        assert policy != "cloud_only" or roles == {"cloud"}


def test_what_would_be_is_answered_without_changing_anything(env: Env) -> None:
    job = env.running()
    env.detail["edge0"] = {"way": {"cloud0": {"up_mbps": 10.0, "down_mbps": 20.0, "at": env.now.timestamp()}}}
    env.report()
    stages = env.job(job.uid).stages
    shas = {
        (stage.name, number): variant[0].sha256 for stage in stages for number, variant in enumerate(stage.variants)
    }
    rows = [replace(row, model=shas[row.stage, row.model_id]) for row in measured(env.now)]
    with env.container.database.write() as conn:
        store.put_measurements(conn, rows)
    body: dict[str, Any] = {"job_uid": job.uid}
    supposed = env.planning.what_if(USER, body, now=env.now)
    assert len(supposed) == 3
    assert [one.delay_s for one in supposed] == sorted(one.delay_s for one in supposed)
    slow = env.planning.what_if(USER, {**body, "nodes": {"cloud0": {"up_mbps": 0.1}}}, now=env.now)

    def in_cloud(predictions: list[Any]) -> float:
        return next(
            one.delay_s
            for one in predictions
            if all(place["node_role"] == "cloud" for place in one.flow_mapping.values())
        )

    assert in_cloud(slow) > 10 * in_cloud(supposed)
    as_it_would_be = {"node": "edge0", "video_id": "1", "dag": dag(), "video_conf": {"resolution": "720p"}}
    other = env.planning.what_if(USER, {**as_it_would_be, "model_id": 2}, now=env.now)
    assert {one.video_conf.resolution for one in other} == {"720p"}
    gone = env.planning.what_if(USER, {**body, "nodes": {"cloud0": {"online": False}}}, now=env.now)
    assert all(place["node_role"] == "host" for one in gone for place in one.flow_mapping.values())
    assert env.job(job.uid).plan == replace(a_plan(), seq=1, policy="profile")


NO_QUESTIONS: tuple[tuple[Any, type[Exception]], ...] = (
    ([], BadRequest),
    ({}, BadRequest),
    ({"job_uid": "GLOBAL_ID_99.SUB_ID_1"}, VideoJobNotFound),
    ({"node": "nowhere", "video_id": "1", "dag": {}}, VideoNotFound),
    ({"node": "edge0", "video_id": "1", "dag": {}}, BadDag),
    ({"nodes": {"nowhere": {}}}, BadRequest),
    ({"nodes": {"cloud0": {"up_mbps": -1}}}, BadRequest),
    ({"nodes": {"cloud0": {"cpu_ratio": 2}}}, BadRequest),
    ({"nodes": {"cloud0": {"online": 1}}}, BadRequest),
    ({"nodes": {"cloud0": {"speed": 1}}}, BadRequest),
    ({"video_conf": {"resolution": "8k"}}, BadRequest),
    ({"model_id": 3}, BadRequest),
    ({"what": 1}, BadRequest),
)


def test_a_question_that_is_none_is_refused(env: Env) -> None:
    job = env.submit()
    env.settle()
    for body, error in NO_QUESTIONS:
        is_of_a_job = isinstance(body, dict) and body and not {"job_uid", "node"} & set(body)
        with pytest.raises(error):
            env.planning.what_if(USER, {"job_uid": job.uid, **body} if is_of_a_job else body, now=env.now)
