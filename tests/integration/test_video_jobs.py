"""Users' video jobs on the real database and Redis: what is refused, what is kept, and what stays another's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from app.accounts.model import Role
from app.bootstrap.container import Container
from app.kit.errors import BadInput, BadRequest, Conflict, TooLarge, TooMany
from app.video import store
from app.video.errors import (
    BadConstraint,
    BadDag,
    BadStage,
    JobEnded,
    NoPicture,
    UnknownPolicy,
    VideoJobNotFound,
    VideoNotFound,
    VideoRefused,
)
from app.video.model.job import JOBS, Ending, JobState, Mode, RestartPolicy
from app.video.service import Submission
from app.video.service.pictures import MAX_PICTURE_BYTES
from app.video.service.planner_input import planning_input
from tests.harness.video.nodes import USER, Env
from tests.harness.video.records import dag, ended_video, running_video, waiting_video


@pytest.fixture
def env(container: Container) -> Env:
    return Env(container)


def types(env: Env, uid: str) -> list[str]:
    return [event.type for event in env.jobs.events(USER, uid)]


def test_a_job_gets_a_number_that_none_ever_had(env: Env, container: Container) -> None:
    first, second = env.submit(), env.submit(node="192.168.56.102:7000")
    assert (first.uid, second.uid) == ("GLOBAL_ID_1.SUB_ID_1", "GLOBAL_ID_2.SUB_ID_1")
    assert first.node == second.node == "edge0"
    assert first.state is JobState.UNSCHED
    assert first.policy == "profile"
    assert first.secret and first.secret != second.secret
    assert [stage.name for stage in first.stages] == ["face_detection", "face_alignment"]
    assert len(first.stages[0].variants) == 3
    assert env.woken[-2:] == [second.uid, ""]
    for uid in (first.uid, second.uid):
        env.jobs.cancel(USER, uid, now=env.now)
        env.jobs.delete(USER, uid)
    assert env.submit().uid == "GLOBAL_ID_3.SUB_ID_1"


def test_a_number_that_somebody_brings_is_taken_as_it_is_and_given_to_nobody_else(env: Env) -> None:
    assert env.submit(uid="GLOBAL_ID_1.SUB_ID_2").uid == "GLOBAL_ID_1.SUB_ID_2"
    assert env.submit(uid="GLOBAL_ID_7.SUB_ID_1").uid == "GLOBAL_ID_7.SUB_ID_1"
    with pytest.raises(Conflict):
        env.submit(uid="GLOBAL_ID_7.SUB_ID_1")
    with pytest.raises(Conflict):
        submission = Submission("edge0", "1", dag(), uid="GLOBAL_ID_7.SUB_ID_2")
        env.jobs.submit("mallory", submission, now=env.now)
    assert env.submit(uid="GLOBAL_ID_7.SUB_ID_2").uid == "GLOBAL_ID_7.SUB_ID_2", "another part of one's own"
    for uid in ("GLOBAL_ID_7.SUB_ID_1", "GLOBAL_ID_7.SUB_ID_2"):
        env.jobs.cancel(USER, uid, now=env.now)
        env.jobs.delete(USER, uid)
    with pytest.raises(Conflict):  # what is still said of the one before would be taken for this one's
        env.submit(uid="GLOBAL_ID_7.SUB_ID_1")
    made = [env.submit().uid for _ in range(3)]
    assert len({*made, "GLOBAL_ID_1.SUB_ID_1", "GLOBAL_ID_7.SUB_ID_1"}) == 5


def test_a_number_of_another_form_is_refused(env: Env) -> None:
    for uid in ("7", "GLOBAL_ID_0.SUB_ID_1", "GLOBAL_ID_1.SUB_ID", "GLOBAL_ID_1.SUB_ID_1\n", "../x"):
        with pytest.raises(BadRequest, match="unique_job_id"):
            env.submit(uid=uid)
        assert env.jobs.count(USER) == 0, uid


def changed(**fields: Any) -> dict[str, Any]:
    return {**dag(), **fields}


NO_JOBS: tuple[tuple[dict[str, Any], type[Exception], str], ...] = (
    ({"node": "nowhere"}, VideoNotFound, "nowhere"),
    ({"node": "edge1"}, VideoNotFound, "edge1"),
    ({"video_id": "9"}, VideoNotFound, "9"),
    ({"policy": "none such"}, UnknownPolicy, "none such"),
    ({"constraint": {"delay": "fast"}}, BadConstraint, "delay"),
    ({"dag": changed(generator="Nothing")}, BadDag, "Nothing"),
    ({"dag": changed(flow=["SingleFrameGenerator", "face_detection", "nose"])}, BadDag, "nose|face_alignment"),
    ({"dag": changed(stages={"face_detection": {"kind": "no kind", "models": [["m"]]}})}, BadRequest, "kind"),
    (
        {"dag": changed(stages={"face_detection": {"kind": "face_detection", "models": [["no model"]]}})},
        BadStage,
        "no model",
    ),
)
"""What is other than in a job, the error and what it says."""


def test_what_cannot_run_is_refused_and_nothing_is_kept(env: Env) -> None:
    for submission, error, message in NO_JOBS:
        with pytest.raises(error, match=message):
            env.submit(**submission)
        assert env.jobs.count(USER) == 0, submission
        assert env.uids() == [""], submission


def test_inputs_of_another_type_are_refused(env: Env) -> None:
    wrong = dag()
    wrong["input"]["face_alignment"]["bbox"] = "face_detection.prob"
    with pytest.raises(BadDag, match="bbox"):
        env.submit(dag=wrong)


LIVE = {"type": "door", "name": "rtsp://camera/1", "live": "yes"}


@pytest.mark.parametrize(
    ("video", "choice", "policy"),
    [
        (LIVE, {}, RestartPolicy.ALWAYS),
        ({"type": "hall", "name": "a.mp4"}, {}, RestartPolicy.NEVER),
        (LIVE, {"restart_policy": RestartPolicy.NEVER}, RestartPolicy.NEVER),
        (LIVE, {"mode": Mode.PROFILE}, RestartPolicy.NEVER),
    ],
)
def test_a_live_source_is_opened_again_unless_something_else_was_chosen(
    env: Env, video: dict[str, str], choice: dict[str, object], policy: RestartPolicy
) -> None:
    env.videos = {"1": video}
    env.report()
    assert env.submit(**choice).restart_policy is policy


def test_no_more_than_so_many_of_a_user_run_at_once(env: Env) -> None:
    env.jobs.max_per_user = 2
    first = env.submit()
    env.submit()
    with pytest.raises(TooMany, match="2 video jobs"):
        env.submit()
    env.jobs.cancel(USER, first.uid, now=env.now)
    env.submit()
    assert env.jobs.count(USER) == 2
    env.jobs.cancel_all(USER, now=env.now)
    assert env.jobs.count(USER) == 0


def test_a_job_of_another_user_is_none(env: Env, container: Container) -> None:
    container.accounts.users.create("mallory", Role.USER, by="test")
    job, jobs = env.submit(), env.jobs
    verbs: list[Callable[[], object]] = [
        lambda: jobs.get("mallory", job.uid),
        lambda: jobs.constrain("mallory", job.uid, {"delay": 1}, now=env.now),
        lambda: jobs.choose("mallory", job.uid, "fixed", now=env.now),
        lambda: jobs.cancel("mallory", job.uid, now=env.now),
        lambda: jobs.delete("mallory", job.uid),
        lambda: jobs.events("mallory", job.uid),
        lambda: jobs.decisions("mallory", job.uid),
        lambda: env.video.pictures.live("mallory", job.uid, now=env.now),
        lambda: env.video.pictures.snapshot("mallory", job.uid),
        lambda: env.planning.give("mallory", job.uid, {}, {}, now=env.now),
        lambda: env.planning.ask({"job_uid": job.uid}, user="mallory"),  # type: ignore[typeddict-item]
    ]
    for verb in verbs:
        with pytest.raises(VideoJobNotFound):
            verb()
    assert jobs.page("mallory") == ([], None)
    assert jobs.count("mallory") == 0
    assert jobs.get(USER, job.uid).state is JobState.UNSCHED


def test_there_is_no_job_of_a_strange_name(env: Env) -> None:
    for uid in ("", "GLOBAL_ID_99.SUB_ID_1", "a\0b", "x" * 500):
        with pytest.raises(VideoJobNotFound):
            env.jobs.get(USER, uid)


def test_a_list_is_read_page_by_page_newest_first(env: Env) -> None:
    made = []
    for _ in range(5):
        env.later(1)
        made.append(env.submit().uid)
    seen, cursor = [], None
    while True:
        page, cursor = env.jobs.page(USER, cursor=cursor, limit=2)
        seen += [job.uid for job in page]
        if cursor is None:
            break
    assert seen == made[::-1]
    env.jobs.cancel(USER, made[0], now=env.now)
    assert [job.uid for job in env.jobs.page(USER, state=JobState.DONE)[0]] == [made[0]]
    assert [job.uid for job in env.jobs.page(USER, text="global_id_3")[0]] == [made[2]]
    assert len(env.jobs.page(USER, text="EDGE0")[0]) == 5
    assert env.jobs.page(USER, text="%")[0] == []
    assert env.jobs.page(USER, text="a\0b")[0] == []
    with pytest.raises(BadInput):
        env.jobs.page(USER, cursor="none")


def test_a_constraint_and_a_policy_are_changed_and_the_next_plan_is_asked_for_at_once(env: Env) -> None:
    job = env.running()
    env.sent.clear()
    given = {"delay": [0.1, 0.3], "acc_level": 4}
    after = env.jobs.constrain(USER, job.uid, given, now=env.now)
    assert (after.constraint.lo, after.constraint.hi, after.constraint.quality) == (0.1, 0.3, 0.9)
    assert after.constraint.to_json() == given
    assert env.jobs.choose(USER, job.uid, "edge_only", now=env.now).policy == "edge_only"
    assert env.sent == [(job.uid, "constraint"), (job.uid, "policy")]
    assert env.job(job.uid).memory == {}, "another policy does not get what the last one kept"
    with pytest.raises(UnknownPolicy):
        env.jobs.choose(USER, job.uid, "os:system", now=env.now)
    with pytest.raises(BadConstraint):
        env.jobs.constrain(USER, job.uid, {"delay": True}, now=env.now)
    assert types(env, job.uid)[-2:] == ["Constraint", "Policy"]
    env.settle()
    assert env.content(job.uid)["constraint"] == given


def test_one_that_is_cancelled_ends_and_stays_as_it_is(env: Env) -> None:
    job = env.running()
    ended = env.jobs.cancel(USER, job.uid, now=env.now)
    assert (ended.state, ended.ending) == (JobState.DONE, Ending.CANCELLED)
    assert ended.ended_at
    assert env.jobs.cancel(USER, job.uid, now=env.later(5)) == ended
    assert types(env, job.uid)[-1] == "DONE"
    for change in (
        lambda: env.jobs.constrain(USER, job.uid, {}, now=env.now),
        lambda: env.jobs.choose(USER, job.uid, "fixed", now=env.now),
        lambda: env.planning.give(USER, job.uid, {}, {}, now=env.now),
    ):
        with pytest.raises((JobEnded, BadRequest)):
            change()
    env.settle()
    assert env.orders(JOBS, job.uid) == []


def test_whatever_is_kept_of_a_job_goes_with_it(env: Env, container: Container) -> None:
    job = running_video(env.video)
    with pytest.raises(Conflict, match="has not ended"):
        env.jobs.delete(USER, job.uid)
    env.video.pictures.put_snapshot("edge0", job.uid, b"\xff\xd8\xff picture \xff\xd9", now=env.now)
    assert env.reports.series(job.uid)
    env.jobs.cancel(USER, job.uid, now=env.now)
    env.jobs.delete(USER, job.uid)
    with pytest.raises(VideoJobNotFound):
        env.jobs.get(USER, job.uid)
    assert env.reports.series(job.uid) == []
    assert list(container.objects.list("video/")) == []
    with container.database.read() as conn:
        assert store.events_of(conn, job.uid) == []
        assert store.decisions_of(conn, job.uid, 10) == []


def test_jobs_that_ended_long_ago_are_forgotten(env: Env) -> None:
    old = env.submit()
    env.jobs.cancel(USER, old.uid, now=env.now)
    env.later(env.controller.keep_days * 86400)
    young, going = env.submit(), env.submit()
    env.jobs.cancel(USER, young.uid, now=env.now)
    env.controller.forget_old(env.later(60))
    assert env.uids() == ["", going.uid, young.uid] or env.uids() == ["", young.uid, going.uid]


def test_pictures_are_taken_of_the_node_that_runs_the_job_and_are_whole(env: Env) -> None:
    job, pictures = env.running(), env.video.pictures
    with pytest.raises(NoPicture):
        pictures.snapshot(USER, job.uid)
    for number in range(2):
        pictures.put_snapshot("edge0", job.uid, b"\xff\xd8\xff %d \xff\xd9" % number, now=env.now)
    assert pictures.snapshot(USER, job.uid) == b"\xff\xd8\xff 1 \xff\xd9"
    with pytest.raises(VideoJobNotFound):
        pictures.put_snapshot("cloud0", job.uid, b"\xff\xd8\xff \xff\xd9", now=env.now)
    for bad in (b"", b"<svg/>", b"\xff\xd8\xff cut off"):
        with pytest.raises(BadRequest, match="That is no JPEG"):
            pictures.put_snapshot("edge0", job.uid, bad, now=env.now)
    with pytest.raises(TooLarge, match=r"A picture has at most \d+ MiB"):
        pictures.put_snapshot("edge0", job.uid, b"\xff\xd8\xff" + bytes(MAX_PICTURE_BYTES) + b"\xff\xd9", now=env.now)
    assert pictures.snapshot(USER, job.uid) == b"\xff\xd8\xff 1 \xff\xd9"


def test_a_picture_that_comes_while_its_job_is_deleted_does_not_outlive_it(
    env: Env, container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, put = env.running(), container.objects.put

    def slow(*given: Any, **named: Any) -> Any:
        env.jobs.cancel(USER, job.uid, now=env.now)
        env.jobs.delete(USER, job.uid)
        return put(*given, **named)

    monkeypatch.setattr(container.objects, "put", slow)
    with pytest.raises(VideoJobNotFound):
        env.video.pictures.put_snapshot("edge0", job.uid, b"\xff\xd8\xff \xff\xd9", now=env.now)
    assert list(container.objects.list("video/")) == []
    env.report()
    assert env.orders(JOBS, job.uid) == []


def test_the_live_picture_is_where_the_runner_is_while_it_is_there(env: Env) -> None:
    job, pictures = env.running(), env.video.pictures
    env.settle()
    live = pictures.live(USER, job.uid, now=env.now)
    assert live is not None
    assert (live.url, live.secret) == (f"http://192.168.56.102:5101/user/video/{job.uid}", job.secret)
    assert pictures.live(USER, job.uid, now=env.later(31)) is None
    env.report()
    assert pictures.live(USER, job.uid, now=env.now) is not None
    env.jobs.cancel(USER, job.uid, now=env.now)
    assert pictures.live(USER, job.uid, now=env.now) is None


def test_videos_for_tests_are_as_the_services_leave_them(env: Env) -> None:
    running, waiting, ended = running_video(env.video), waiting_video(env.video), ended_video(env.video)
    assert running.state is JobState.EXEC
    assert running.plan is not None
    assert len(running.results) == 10
    assert waiting.state is JobState.UNSCHED
    assert (ended.state, ended.ending) == (JobState.DONE, Ending.FINISHED)
    assert env.submit(mode=Mode.PROFILE).mode is Mode.PROFILE
    assert len(env.jobs.decisions(USER, running.uid)) == 3
    assert env.jobs.decisions(USER, running.uid)[0].outcome == "late"
    assert len(env.reports.series(running.uid)) == 30
    assert len(env.reports.measurements(node="edge0")) == 12


def test_a_video_that_its_node_opens_for_nobody_is_refused_with_the_nodes_reason(env: Env) -> None:
    env.videos = {"1": {"type": "hall", "name": "rtsp://camera/1", "problem": "Not offered.", "refused": "yes"}}
    env.report()
    with pytest.raises(VideoRefused, match="edge0") as refused:
        env.submit()
    assert refused.value.hint == "Not offered."
    assert env.jobs.count(USER) == 0
    env.videos["1"] = {"type": "hall", "name": "a.mp4", "problem": "a.mp4 is cut off: its end is missing"}
    env.report()
    assert env.submit().video_id == "1"  # what is left of it can be read


def test_the_first_plan_is_for_the_rate_and_size_that_the_node_says_its_video_has(env: Env) -> None:
    facts = {"type": "hall", "name": "a.mp4", "size": "270x480", "fps": "12.5"}
    strange = {"type": "hall", "name": "b.mp4", "size": "x", "fps": "-1e9"}
    node = env.container.nodes.get("edge0")
    offers = {JOBS: {"address": "", "videos": {"0": facts, "1": strange}}}
    env.container.nodes.report(
        "edge0", replace(node.report, offers=offers), address=node.address, version="1", now=env.now
    )
    for video_id, known in (("0", {"fps": 12.5, "width": 270.0, "height": 480.0}), ("1", {})):
        job = env.submit(video_id=video_id)
        with env.jobs.database.read() as conn:
            kept = store.get(conn, job.uid)
        assert kept is not None and kept.job.generator_output == known
        info = env.video.resources.info(job, env.now)
        question = planning_input(kept, info, [], env.jobs.catalogue.kinds(), env.now)
        assert question.generator_output == (known or None)


def test_a_broadcast_needs_a_media_server_and_a_path_of_its_own_on_its_node(env: Env) -> None:
    door = dag() | {"broadcast": {"path": "door"}}
    first = env.submit(dag=door)
    with pytest.raises(Conflict, match="'door' already"):
        env.submit(dag=door)
    env.submit(dag=dag() | {"broadcast": {}})
    env.submit(dag=dag() | {"broadcast": {}})
    env.jobs.cancel(USER, first.uid, now=env.now)
    assert env.submit(dag=door).dag.broadcast == first.dag.broadcast
    env.media_server = ""
    env.report()
    with pytest.raises(BadDag, match="has no media server"):
        env.submit(dag=dag() | {"broadcast": {}})
