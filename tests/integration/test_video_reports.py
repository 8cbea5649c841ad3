"""What runners report, on the real database and Redis: once, in order, of the node that runs the job."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from app.bootstrap.container import Container
from app.kit.clock import to_text
from app.kit.errors import BadRequest
from app.kit.queue.broker import connect_to_look
from app.kit.redis.time_series import TimeSeries
from app.results.model.sink import STUCK_TRIES, SinkKind
from app.results.store import change_sink
from app.video import responses
from app.video.errors import VideoJobNotFound
from app.video.model.job import JOBS, Ending, JobState
from app.video.service.reports import SERIES
from tests.harness.video.nodes import USER, Env
from tests.harness.video.records import measured, plan_result, result
from tests.harness.video.sinks import add


@pytest.fixture
def env(container: Container) -> Env:
    return Env(container)


def take(env: Env, uid: str, seq: int, *, node: str = "edge0", user: str = "", **other: Any) -> None:
    report: Any = {"job_uid": uid, "seq": seq, "results": [], **other}
    env.reports.take(report, node=node, user=user, now=env.now)


def loops(env: Env, uid: str) -> list[int]:
    return [one["n_loop"] for one in env.job(uid).results]


def test_the_newest_ten_results_are_kept_each_once_newest_last(env: Env) -> None:
    job = env.running()
    take(env, job.uid, 1, results=[result(n) for n in range(1, 8)])
    take(env, job.uid, 1, results=[result(n) for n in range(1, 9)])
    assert loops(env, job.uid) == [1, 2, 3, 4, 5, 6, 7], "the same report again"
    take(env, job.uid, 3, results=[result(n) for n in (9, 7, 8, 6, 10)])
    take(env, job.uid, 2, results=[result(99)])
    assert loops(env, job.uid) == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10], "an older report comes too late"
    take(env, job.uid, 4, results=[result(n) for n in range(8, 31)])
    assert loops(env, job.uid) == list(range(21, 31))
    after = env.job(job.uid)
    assert after.n_loop == 30
    assert after.results[-1] == result(30)
    assert after.reported_at


def test_how_the_plan_does_is_kept_and_goes_into_the_plots(env: Env) -> None:
    job = env.running()
    for number in range(5):
        take(env, job.uid, number + 1, plan_result={**plan_result(), "frames": number, "plan_seq": 1})
        env.later(1)
    after = env.job(job.uid)
    assert after.plan_result["frames"] == 4
    assert after.plan_result["delay"] == {"face_detection": 0.12, "face_alignment": 0.09}
    points = env.reports.series(job.uid)
    assert [point.plan_result["frames"] for point in points] == [0, 2, 4], "one every two seconds"
    assert after.plan is not None
    assert (points[0].plan, points[0].hi) == (after.plan.to_json(), 0.8)
    take(env, job.uid, 9)
    assert env.job(job.uid).plan_result["frames"] == 4, "nothing was said of it"
    env.later(2)
    take(env, job.uid, 10, plan_result={**plan_result(), "plan_seq": after.plan.seq - 1})
    assert env.reports.series(job.uid)[-1].plan is None, "the results are those of the plan before"


def test_plots_have_an_end_and_go_when_they_are_forgotten(env: Env) -> None:
    job = env.running()
    for number in range(SERIES + 3):
        env.later(2)
        take(env, job.uid, number + 1, plan_result={"delay": {}, "frames": number})
    points = env.reports.series(job.uid)
    assert (len(points), points[-1].plan_result["frames"]) == (SERIES, SERIES + 2)
    env.reports.plots.forget(job.uid)
    assert env.reports.series(job.uid) == []


def test_without_redis_reports_are_taken_and_the_plots_have_a_hole(env: Env) -> None:
    job = env.running()
    env.reports.plots = TimeSeries(connect_to_look("redis://127.0.0.1:1"), "plots", most=9, every_s=1)
    take(env, job.uid, 1, results=[result(1)], plan_result=plan_result())
    assert loops(env, job.uid) == [1]
    assert env.reports.series(job.uid) == []
    env.reports.plots.forget(job.uid)


@pytest.mark.parametrize("ending", list(Ending))
def test_a_job_ends_as_its_runner_says_and_what_comes_later_is_passed_over(env: Env, ending: Ending) -> None:
    job = env.running()
    env.woken.clear()
    take(env, job.uid, 1, results=[result(1)], ending=ending.value, reason="The video came to its end.")
    after = env.job(job.uid)
    assert (after.state, after.ending, after.reason) == (JobState.DONE, ending, "The video came to its end.")
    assert after.ended_at
    assert job.uid in env.woken
    take(env, job.uid, 2, results=[result(2)], ending="error")
    assert env.job(job.uid) == after
    env.settle()
    assert env.orders(JOBS, job.uid) == []
    assert env.jobs.events(USER, job.uid)[-1].type == "DONE"


def test_flags_come_and_go_but_whether_its_node_is_heard_is_not_the_runners_to_say(env: Env) -> None:
    job = env.running()
    take(env, job.uid, 1, flags=["degraded"])
    assert env.job(job.uid).flags == ("degraded",)
    env.later(31)
    env.controller.reconcile(job.uid, now=env.now)
    assert env.job(job.uid).flags == ("degraded", "offline")
    take(env, job.uid, 2)
    assert env.job(job.uid).flags == ("degraded", "offline")
    take(env, job.uid, 3, flags=[])
    assert env.job(job.uid).flags == ("offline",)


def test_a_sink_that_is_stuck_is_a_flag_of_its_job_and_two_events(env: Env) -> None:
    job = env.running()
    sink = add(env, job.uid, SinkKind.HTTP, "https://1.1.1.1/rows")
    for seq, tries in enumerate((STUCK_TRIES - 1, STUCK_TRIES, STUCK_TRIES + 1, 0), 1):
        with env.container.database.write() as conn:
            change_sink(conn, sink.sink_id, tries=tries, problem="refused" if tries else "")
        take(env, job.uid, seq, flags=[])
        assert env.job(job.uid).flags == (("sink_stuck",) if tries >= STUCK_TRIES else ())
    told = [(event.type, event.message) for event in env.jobs.events(USER, job.uid) if "Sink" in event.type]
    assert told == [
        ("SinkStuck", "The sink 'https://1.1.1.1/rows' accepts nothing: refused."),
        ("SinkRecovered", "No sink is stuck any more."),
    ]


def test_a_profile_is_kept_by_node_stage_model_and_size(env: Env) -> None:
    job, rows = env.running(), [row.to_json() for row in measured(env.now)]
    take(env, job.uid, 1, profile=rows, progress=0.5, note="The golden configuration is 720p.")
    assert env.job(job.uid).progress == 0.5
    assert env.jobs.events(USER, job.uid)[-1].message == "The golden configuration is 720p."
    take(env, job.uid, 2, profile=[{**rows[0], "delay_s": 9.0}, {**rows[0], "resolution": "240p"}])
    measurements = env.reports.measurements(node=rows[0]["node"], stage=rows[0]["stage"])
    assert [(row.model_id, row.resolution) for row in measurements][:4] == [
        (0, "240p"),
        (0, "360p"),
        (0, "480p"),
        (0, "720p"),
    ]
    assert measurements[1].delay_s == 9.0
    assert len(env.reports.measurements()) == len(rows) + 1
    assert {row.stage for row in env.reports.measurements(stage="face_alignment")} == {"face_alignment"}


NO_REPORTS: tuple[dict[str, Any], ...] = (
    {"job_uid": 4},
    {"job_uid": "a\0b"},
    {"seq": "1"},
    {"seq": -1},
    {"seq": None},
    {"results": {}},
    {"results": [4]},
    {"results": [{"up": 1}]},
    {"results": [{"n_loop": "7"}]},
    {"plan_result": []},
    {"plan_result": {"delay": {"face_detection": "fast"}}},
    {"plan_result": {"fps": float("nan")}},
    {"results": [{"n_loop": 1, "up": float("inf")}]},
    {"flags": "degraded"},
    {"flags": ["<b>"]},
    {"ending": "exploded"},
    {"progress": "half"},
    {"note": ["x"]},
    {"profile": [{}]},
    {"profile": [4]},
    {"results": [{"n_loop": 1, "text": "x" * 300_000}]},
)
"""What is other than in a report."""


def test_a_report_that_is_none_is_refused_whole(env: Env) -> None:
    job = env.running()
    for wrong in NO_REPORTS:
        with pytest.raises((BadRequest, VideoJobNotFound)):
            take(env, **{"uid": job.uid, "seq": 1, "results": [result(1)], **_named(wrong)})
        assert loops(env, job.uid) == [], wrong


def _named(wrong: dict[str, Any]) -> dict[str, Any]:
    return {"uid" if key == "job_uid" else key: value for key, value in wrong.items()}


def test_only_the_node_that_runs_a_job_and_its_owner_speak_of_it(env: Env) -> None:
    job = env.running()
    for who in ({"node": "cloud0"}, {"node": "", "user": "mallory"}, {"node": "", "user": ""}):
        with pytest.raises(VideoJobNotFound):
            take(env, job.uid, 1, results=[result(1)], **who)
    with pytest.raises(VideoJobNotFound):
        take(env, "GLOBAL_ID_99.SUB_ID_1", 1)
    take(env, job.uid, 1, node="", user=USER, results=[result(1)])
    assert loops(env, job.uid) == [1]


def test_a_job_without_a_signal_says_since_when_until_there_are_pictures_again(env: Env) -> None:
    job = env.running()
    none = {"delay": {}, "fps": 0.0, "frames": 0}
    note = "The first line.\nNo signal: nothing listens there. The source is opened again until it is back."
    take(env, job.uid, 1, flags=["no_signal"], silent_s=12.0, plan_result=none, note=note)
    since = to_text(env.now - timedelta(seconds=12))
    stored = env.job(job.uid)
    assert (stored.flags, stored.no_signal_since, stored.plan_result["fps"]) == (("no_signal",), since, 0.0)
    env.later(5)
    take(env, job.uid, 2, flags=["no_signal"], silent_s=17.4)
    assert env.job(job.uid).no_signal_since == since, "as it was told first"
    assert env.job(job.uid).reason == note.splitlines()[1]
    take(env, job.uid, 3, flags=[], results=[result(51)])
    stored = env.job(job.uid)
    assert (stored.flags, stored.no_signal_since, stored.reason) == ((), None, "")
    take(env, job.uid, 4, flags=["no_signal"], silent_s=1.0, ending="error", reason="It was given up.")
    stored = env.job(job.uid)
    assert (stored.state, stored.flags, stored.no_signal_since) == (JobState.DONE, (), None), (
        "an ended job waits for none"
    )


def test_what_a_runner_says_of_its_broadcast_is_shown_until_it_says_another_thing(env: Env) -> None:
    job, state = env.running(), {"url": "rtsp://10.0.0.9:8554/door", "is_sending": True, "frames": 5, "connections": 1}
    sending = {**state, "core_share": 0.02, "problem": ""}
    take(env, job.uid, 1, broadcast=sending)
    take(env, job.uid, 2)
    assert env.job(job.uid).broadcast == sending
    take(env, job.uid, 3, flags=["no_broadcast"], broadcast={**sending, "is_sending": False, "problem": "Broken pipe"})
    assert env.job(job.uid).broadcast["problem"] == "Broken pipe"
    assert env.job(job.uid).flags == ("no_broadcast",)
    with pytest.raises(BadRequest, match=r"broadcast\.frames"):
        take(env, job.uid, 4, broadcast={**sending, "frames": "many"})
    take(env, job.uid, 5, broadcast=sending, ending="finished")
    answer = responses.describe_job(env.job(job.uid)).broadcast
    assert answer is not None and not answer.is_sending, "a job that has ended sends nothing"
