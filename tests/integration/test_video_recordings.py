"""Clips of recorded jobs by page, API and command, from a real recorder behind a real server of a runner."""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import av
import httpx
import numpy as np
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from app.edge.media.video_writer import FORMATS
from app.edge.video.runner.preview import PreviewStream
from app.edge.video.runner.recorder import FOLDER, SwitchableRecorder
from app.edge.video.runner.runner_server import application
from app.edge.video.runner.video_segments import SegmentRing, SegmentWriter
from app.kit.cli.command import Exit
from app.kit.clock import now, to_text
from app.results.model.event import RuleEvent
from app.results.service.event_media import media_key
from app.results.store import add_rule_event
from app.video.errors import ClipNotFound, RecordingUnavailable
from app.video.model.drawn_video import Recording
from app.video.model.job import JOBS, VideoJob
from app.video.service import clips
from app.video.service.clips import AFTER_S, MAX_STATE_BYTES
from app.video.service.pictures import LiveStream
from tests.harness.command_line import typed_in
from tests.harness.users import OURS
from tests.harness.video.records import running_video
from tests.harness.video.web import VideoWeb
from tests.harness.video.web_fixtures import started
from tests.harness.web import served

typed = typed_in("video")
__all__ = ["started"]
SECRET = "the runner's"
SECONDS = 30
"""How long was recorded."""


@dataclass
class Recorded:
    env: VideoWeb
    job: VideoJob
    begins: datetime
    """Of the recording, which ends a second ago."""

    @property
    def place(self) -> str:
        return f"/api/v2/video/jobs/{self.job.uid}"

    @property
    def page(self) -> str:
        return f"/ui/video/{self.job.uid}"

    def span(self, begin: float, end: float) -> dict[str, str]:
        """Seconds after the begin."""
        return {name: to_text(self.begins + timedelta(seconds=s)) for name, s in (("since", begin), ("until", end))}

    def get(self, path: str, **query: Any) -> httpx.Response:
        return self.env.client.get(path, params=query)

    def event(self, after_s: float) -> int:
        at = to_text(self.begins + timedelta(seconds=after_s))
        event = RuleEvent("door", 1, at, ({"label": "cat", "score": 0.9},))
        with self.env.container.database.write() as conn:
            return add_rule_event(conn, self.job.uid, event, at).event_id


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, datetime]:
    """The folder of a recording with a picture a second, in segments of ten, and its begin."""
    folder, begins_s = tmp_path_factory.mktemp("recording"), round(now().timestamp()) - SECONDS - 1
    ring = SegmentRing(folder / FOLDER, Recording(1.0))
    for first_s in range(begins_s, begins_s + SECONDS, 10):
        writer = SegmentWriter(FORMATS[0], (64, 48), first_s)
        for second in range(10):
            writer.add(np.full((48, 64, 3), 20 * second, np.uint8), first_s + second)
        ring.add(writer.close(), first_s, first_s + 9, "mp4")
    return folder, datetime.fromtimestamp(begins_s, UTC)


@pytest.fixture
def recorded(
    started: VideoWeb, recording: tuple[Path, datetime], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Recorded]:
    started.empty()
    folder, begins = recording
    recorder = SwitchableRecorder(folder, lambda _: np.zeros((48, 64, 3), np.uint8), lambda _: None)
    recorder.follow(Recording(1.0))
    recorder.start()
    job = running_video(started.video, started.user, now=now(), recording={"hours": 1})
    app = application(job.uid, lambda: SECRET, PreviewStream(), is_ready=lambda: True, health=dict, recording=recorder)
    with served(app) as url:
        live = LiveStream(f"{url}/user/video/{job.uid}", SECRET)
        monkeypatch.setattr(started.video.pictures, "live", lambda _user, _uid, *, now: live)
        monkeypatch.setenv("MODELMILL_URL", started.url)
        yield Recorded(started, job, begins)
    recorder.close()


def seconds_of(clip: bytes) -> float:
    with av.open(io.BytesIO(clip)) as container:
        return [float(frame.time or 0) for frame in container.decode(video=0)][-1]


def test_the_recording_of_a_job_and_a_clip_of_it(recorded: Recorded) -> None:
    state = recorded.get(f"{recorded.place}/recording").json()
    assert state["begins_at"] == to_text(recorded.begins)
    assert state["size_bytes"] > 0
    assert state["problem"] == ""
    answer = recorded.get(f"{recorded.place}/clip", **recorded.span(12, 18))
    assert (answer.status_code, answer.headers["content-type"]) == (200, "video/mp4")
    assert seconds_of(answer.content) == pytest.approx(6, abs=2.01)


def test_a_clip_of_another_time_is_not_found_and_an_odd_one_refused(recorded: Recorded) -> None:
    gone = recorded.get(f"{recorded.place}/clip", **recorded.span(-600, -300))
    assert (gone.status_code, gone.json()["error"]["code"]) == (404, "CLIP_NOT_FOUND")
    for span in (recorded.span(10, 10), recorded.span(0, 601)):
        assert recorded.get(f"{recorded.place}/clip", **span).status_code == 400
    assert recorded.get(f"{recorded.place}/clip", since="yesterday", until="today").status_code == 422


def test_a_job_that_is_not_recorded_or_that_has_ended_has_no_clip(recorded: Recorded) -> None:
    other = recorded.env.running()
    answer = recorded.get(f"/api/v2/video/jobs/{other.uid}/recording")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "CLIP_NOT_FOUND")
    recorded.env.video.jobs.cancel(recorded.env.user, recorded.job.uid, now=now())
    assert "has ended" in recorded.get(f"{recorded.place}/clip", **recorded.span(1, 5)).json()["error"]["message"]


def test_a_node_that_does_not_answer_is_said(recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    for live in (None, LiveStream("http://127.0.0.1:1/user/video/x", SECRET)):
        monkeypatch.setattr(recorded.env.video.pictures, "live", lambda _user, _uid, *, now, live=live: live)
        answer = recorded.get(f"{recorded.place}/recording")
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "RECORDING_UNAVAILABLE")
        assert "Recording" in recorded.get(f"{recorded.page}/recording").text
    with pytest.raises(RecordingUnavailable):
        recorded.env.video.clips.state(recorded.env.user, recorded.job.uid, now=now())


@pytest.fixture
def odd_node(recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Has the node of the job answer with this at both paths."""
    answers = list[tuple[Callable[[], Any], str]]()

    def answer(_: Request) -> StreamingResponse:
        content, media_type = answers[-1]
        return StreamingResponse(content(), media_type=media_type)

    app = Starlette(routes=[Route("/x/{path}", answer)])
    with served(app) as url:
        live = LiveStream(f"{url}/x", SECRET)
        monkeypatch.setattr(recorded.env.video.pictures, "live", lambda _user, _uid, *, now: live)
        yield lambda content, media_type="application/json": answers.append((content, media_type))


def told(**facts: Any) -> Callable[[], Iterator[str]]:
    """The state of a recording, as a node says it."""
    usual = {"begins_s": None, "ends_s": None, "size_bytes": 0, "core_share": 0.0, "problem": ""}
    return lambda: iter([json.dumps({**usual, **facts})])


def test_a_node_that_answers_in_another_form_is_said(recorded: Recorded, odd_node: Callable[..., None]) -> None:
    odd_node(told())
    assert recorded.get(f"{recorded.place}/recording").status_code == 200
    for facts in (
        {"begins_s": "then"},
        {"begins_s": 1e300},
        {"core_share": float("nan")},
        {"size_bytes": -1},
        {"problem": "x" * MAX_STATE_BYTES},
    ):
        odd_node(told(**facts))
        answer = recorded.get(f"{recorded.place}/recording")
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "RECORDING_UNAVAILABLE"), facts


def test_what_a_node_says_is_shown_in_part_and_its_clip_is_never_a_page(
    recorded: Recorded, odd_node: Callable[..., None]
) -> None:
    odd_node(told(problem="x" * 1000), "text/html")
    assert recorded.get(f"{recorded.place}/recording").json()["problem"] == "x" * 200
    assert recorded.get(f"{recorded.place}/clip").headers["content-type"] == "video/webm"


def test_a_node_that_never_ends_its_answer_is_left(
    recorded: Recorded, odd_node: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    odd_node(lambda: itertools.repeat(b" " * 1000))
    monkeypatch.setattr(clips, "MAX_CLIP_BYTES", 100_000)
    for path in ("recording", "clip"):
        assert recorded.get(f"{recorded.place}/{path}").json()["error"]["code"] == "RECORDING_UNAVAILABLE"
    monkeypatch.setattr(clips, "WHOLE_S", 0)
    monkeypatch.setattr(clips, "MAX_CLIP_BYTES", 1 << 60)
    assert recorded.get(f"{recorded.place}/clip").json()["error"]["code"] == "RECORDING_UNAVAILABLE"


def test_a_clip_that_is_fetched_while_its_job_is_deleted_is_not_kept(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    event, video, env = recorded.event(15), recorded.env.video, recorded.env
    live = video.pictures.live(env.user, recorded.job.uid, now=now())

    def deletes(_user: str, uid: str, *, now: datetime) -> LiveStream | None:
        video.jobs.cancel(env.user, uid, now=now)
        video.jobs.forget([uid])
        return live

    monkeypatch.setattr(video.pictures, "live", deletes)
    assert video.clips.keep_of_events(recorded.job.uid, now=recorded.begins + timedelta(seconds=15 + AFTER_S + 2)) == 1
    assert not video.clips.rules.media.has(media_key("video", recorded.job.uid, event, "clip"))


def test_the_clip_of_an_event_is_kept_when_the_recording_is_gone(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    event, late, kept = recorded.event(15), recorded.event(SECONDS), recorded.env.video.clips
    place = f"{recorded.place}/rule-events/{event}"
    assert seconds_of(recorded.get(f"{place}/clip").content) == pytest.approx(10, abs=2.01)
    assert recorded.get(f"{recorded.place}/rule-events").json()["events"][-1]["links"]["clip"] == f"{place}/clip"
    assert kept.keep_of_events(recorded.job.uid, now=recorded.begins + timedelta(seconds=15 + AFTER_S + 2)) == 1
    assert kept.keep_of_events(recorded.job.uid, now=recorded.begins + timedelta(seconds=15 + AFTER_S + 2)) == 0
    monkeypatch.setattr(recorded.env.video.pictures, "live", lambda _user, _uid, *, now: None)
    assert seconds_of(recorded.get(f"{place}/clip").content) == pytest.approx(10, abs=2.01)
    assert recorded.get(f"{recorded.place}/rule-events/{late}/clip").status_code == 503
    assert recorded.get(f"{recorded.place}/rule-events/999/clip").json()["error"]["code"] == "RULE_EVENT_NOT_FOUND"
    recorded.env.container.results.rules.keep_days = 0
    recorded.env.container.results.rules.forget_old(now() + timedelta(days=1))
    assert not recorded.env.container.results.rules.media.has(media_key("video", recorded.job.uid, event, "clip"))


def test_clips_are_asked_for_with_each_snapshot_of_a_recorded_job(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    uids = list[str]()
    pictures, other = recorded.env.video.pictures, recorded.env.running()
    monkeypatch.setattr(pictures, "keep_clips", uids.append)
    for uid in (recorded.job.uid, other.uid):
        pictures.put_snapshot("edge0", uid, b"\xff\xd8\xff a picture \xff\xd9", now=now())
    assert uids == [recorded.job.uid]
    assert recorded.env.video.clips.keep_of_events(other.uid, now=now()) == 0


def test_of_an_event_without_a_recording_no_clip_is_kept(recorded: Recorded) -> None:
    recorded.event(-100)
    assert recorded.env.video.clips.keep_of_events(recorded.job.uid, now=recorded.begins - timedelta(seconds=90)) == 0
    with pytest.raises(ClipNotFound):
        recorded.env.video.clips.clip(
            recorded.env.user,
            recorded.job.uid,
            recorded.begins - timedelta(seconds=110),
            recorded.begins - timedelta(seconds=100),
            now=now(),
        )


def test_the_page_shows_a_clip_or_that_there_is_none(recorded: Recorded) -> None:
    event = recorded.event(15)
    assert f"{recorded.page}/recording" in recorded.get(recorded.page).text
    assert f"{recorded.page}/recording?event={event}" in recorded.get(f"{recorded.page}/rules").text
    shown = recorded.get(f"{recorded.page}/recording", event=event).text
    assert f'src="{recorded.place}/rule-events/{event}/clip"' in shown
    assert (
        f'src="{recorded.place}/clip?since=' in recorded.get(f"{recorded.page}/recording", **recorded.span(1, 5)).text
    )
    gone = recorded.get(f"{recorded.page}/recording", **recorded.span(-300, -200)).text
    assert "<video" not in gone
    assert "Nothing is recorded of this time, or no longer." in gone
    odd = recorded.get(f"{recorded.page}/recording", **recorded.span(0, 5000))
    assert odd.status_code == 422
    assert "at most ten minutes after its start" in odd.text
    odd = recorded.get(f"{recorded.page}/recording", since="yesterday")
    assert odd.status_code == 422
    assert "A time has a date" in odd.text
    other = recorded.env.running()
    chinese = recorded.env.client.get(f"/ui/video/{other.uid}/recording", headers={"Accept-Language": "zh-TW"}).text
    assert "從現在起錄影" in chinese


def test_a_running_job_is_recorded_from_a_click_on_and_no_longer_after_another(recorded: Recorded) -> None:
    env, job = recorded.env, recorded.env.running()
    page = f"/ui/video/{job.uid}/recording"
    assert page in env.client.get(f"/ui/video/{job.uid}").text
    assert "Record from now on" in env.client.get(page).text
    assert env.client.post(page, data={"hours": "24"}, headers=OURS).is_redirect
    assert env.video.jobs.get(env.user, job.uid).dag.recording == Recording(24.0)
    env.video.controller.reconcile(job.uid, now=now())
    with env.container.database.read() as conn:
        (order,) = env.container.nodes.orders_of(conn, JOBS, job.uid)
    assert order.content["dag"]["recording"]["hours"] == 24
    shown = env.client.get(page).text
    assert "Stop recording" in shown and "Nothing is recorded" not in shown and "Record from now on" not in shown
    assert env.client.post(page, headers=OURS).is_redirect
    assert env.video.jobs.get(env.user, job.uid).dag.recording is None
    notes = [event.message for event in env.video.jobs.events(env.user, job.uid)][-2:]
    assert notes == ["It is recorded: the newest 24 h.", "It is no longer recorded."]
    answer = env.client.put(f"/api/v2/video/jobs/{job.uid}/recording", json={"recording": {"hours": 0}})
    assert answer.status_code == 400 and answer.json()["error"]["message"].startswith(
        "dag.recording.hours: is a number"
    )
    env.video.jobs.cancel(env.user, job.uid, now=now())
    answer = env.client.put(f"/api/v2/video/jobs/{job.uid}/recording", json={"recording": {"hours": 1}})
    assert answer.status_code == 409
    assert "Record from now on" not in env.client.get(page).text


def test_by_command(
    recorded: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    uid, event, out = recorded.job.uid, recorded.event(15), tmp_path / "seen.mp4"
    assert typed(monkeypatch, "recording", uid) == Exit.OK
    assert to_text(recorded.begins) in capsys.readouterr().out
    span = recorded.span(5, 8)
    for choice in (["--event", event], ["--last", 600], ["--since", span["since"], "--until", span["until"]]):
        assert typed(monkeypatch, "clip", uid, *choice, "--out", out) == Exit.OK
        assert seconds_of(out.read_bytes()) > 2
        out.unlink()
    gone = recorded.span(-300, -200)
    assert typed(monkeypatch, "clip", uid, "--since", gone["since"], "--until", gone["until"], "--out", out) != Exit.OK
    assert "Nothing is recorded of this time" in capsys.readouterr().err
    assert not out.exists()
    assert typed(monkeypatch, "clip", uid) != Exit.OK
    assert "Of which time?" in capsys.readouterr().err
    for options, text in ((["--hours", 2], "is recorded: the newest 2 h."), (["--off"], "is no longer recorded.")):
        assert typed(monkeypatch, "record", uid, *options) == Exit.OK
        assert text in capsys.readouterr().out
