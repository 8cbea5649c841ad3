"""The live picture: what viewers see of a real server that gives MJPEG, and what is left when they go."""

from __future__ import annotations

import asyncio
import io
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from PIL import Image
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from app.accounts.model import Role
from app.kit.clock import now
from app.kit.web.mjpeg import CONTENT_TYPE, FIRST, PartReader, part_of
from app.video import live
from app.video.model.job import VideoJob
from app.video.service.pictures import LiveStream
from tests.harness.until import until
from tests.harness.video.web import VideoWeb
from tests.harness.video.web_fixtures import started
from tests.harness.web import served

__all__ = ["started"]
SECRET = "the runner's"
SIDE = 16


def jpeg(number: int) -> bytes:
    file = io.BytesIO()
    Image.new("L", (SIDE, SIDE), number % 200).save(file, "JPEG")
    return file.getvalue()


class Runner:
    """Gives a picture for each `show`, to all that look. most: of concurrent connections so far."""

    def __init__(self) -> None:
        self.connections, self.most, self.begun = 0, 0, 0
        self.is_broken = False
        self.padding = b""
        self.url = ""
        self._shown = threading.Condition()
        self._newest = 0
        self.app = Starlette(routes=[Route("/user/video/{uid}", self.video)])

    def show(self, number: int) -> None:
        with self._shown:
            self._newest = number

    async def video(self, request: Request) -> Response:
        if request.headers.get("authorization") != f"Bearer {SECRET}":
            return Response(status_code=401)
        if self.is_broken:
            return Response(status_code=503)
        return StreamingResponse(self._parts(), media_type=CONTENT_TYPE)

    async def _parts(self) -> AsyncIterator[bytes]:
        self.connections += 1
        self.begun += 1
        self.most = max(self.most, self.connections)
        try:
            yield FIRST
            seen = 0
            while not self.is_broken:
                if self._newest != seen:
                    seen = self._newest
                    yield part_of(jpeg(seen) + self.padding)
                await asyncio.sleep(0.002)
        finally:
            self.connections -= 1


@pytest.fixture
def runner() -> Iterator[Runner]:
    made = Runner()
    with served(made.app) as url:
        made.url = url
        yield made


@pytest.fixture
def env(started: VideoWeb, runner: Runner, monkeypatch: pytest.MonkeyPatch) -> VideoWeb:
    monkeypatch.setattr(live, "RETRY_S", 0.05)
    monkeypatch.setattr(live, "SNAPSHOT_EVERY_S", 0.1)
    monkeypatch.setattr(live, "FIRST_WITHIN_S", 60.0)
    monkeypatch.setattr(
        started.video.pictures, "live", lambda _user, uid, *, now: LiveStream(f"{runner.url}/user/video/{uid}", SECRET)
    )
    started.empty()
    return started


@pytest.fixture
def job(env: VideoWeb) -> VideoJob:
    return env.running()


class Viewer:
    """Reads parts as they come."""

    def __init__(self, answer: httpx.Response) -> None:
        self.answer = answer
        self._reader = PartReader.of(answer.headers["content-type"])
        self._chunks = answer.iter_raw()
        self._parts: list[bytes] = []

    def next(self) -> bytes:
        while not self._parts:
            self._parts += self._reader.feed(next(self._chunks))
        return self._parts.pop(0)


@contextmanager
def viewer(env: VideoWeb, job: VideoJob, path: str = "/user/video/{}") -> Iterator[Viewer]:
    with (
        httpx.Client(base_url=env.url, timeout=60, trust_env=False) as client,
        client.stream("GET", path.format(job.uid)) as answer,
    ):
        assert answer.status_code == 200, answer.read()
        yield Viewer(answer)


def level(picture: bytes) -> int:
    """The number that was shown, as it is drawn."""
    image = Image.open(io.BytesIO(picture))
    image.load()
    assert image.size == (SIDE, SIDE)
    return int(image.getpixel((0, 0)))  # type: ignore[arg-type]


def feeds(env: VideoWeb) -> dict[str, Any]:
    return env.app.state.video_live._feeds if hasattr(env.app.state, "video_live") else {}


@pytest.mark.parametrize("path", ["/user/video/{}", "/api/v2/video/jobs/{}/live"])
def test_five_parts_are_pictures_in_their_order(env: VideoWeb, runner: Runner, job: VideoJob, path: str) -> None:
    runner.show(10)
    with viewer(env, job, path) as one:
        assert one.answer.headers["content-type"] == "multipart/x-mixed-replace; boundary=frame"
        assert one.answer.headers["cache-control"] == "no-store"
        seen = [level(one.next())]
        for number in (20, 30, 40, 50):
            runner.show(number)
            seen.append(level(one.next()))
    assert seen == [10, 20, 30, 40, 50]


def test_two_viewers_see_the_same_by_one_connection(env: VideoWeb, runner: Runner, job: VideoJob) -> None:
    runner.show(10)
    with viewer(env, job) as one, viewer(env, job) as other:
        for number in (10, 20, 30):
            runner.show(number)
            assert level(one.next()) == level(other.next()) == number
    assert runner.most == 1


def test_a_slow_viewer_leaves_pictures_out_and_holds_nobody_up(env: VideoWeb, runner: Runner, job: VideoJob) -> None:
    runner.padding = b"\0" * (1 << 20)
    runner.show(1)
    with viewer(env, job) as slow, viewer(env, job) as quick:
        for number in range(1, 60):
            runner.show(number)
            quick.next()
        seen = []
        while not seen or seen[-1] < 59:
            seen.append(level(slow.next()))
    assert len(seen) < 50
    assert seen == sorted(seen)


def test_with_the_last_viewer_the_runner_is_left_alone(env: VideoWeb, runner: Runner, job: VideoJob) -> None:
    runner.show(10)
    with viewer(env, job) as one:
        with viewer(env, job) as other:
            other.next()
        runner.show(20)
        one.next()
        assert runner.connections == 1
    runner.show(30)
    until(lambda: runner.connections, lambda count: count == 0)
    until(lambda: feeds(env), lambda watched: not watched)


def test_a_runner_that_is_away_is_stood_in_for_by_snapshots_and_tried_again(
    env: VideoWeb, runner: Runner, job: VideoJob
) -> None:
    env.video.pictures.put_snapshot(job.node, job.uid, jpeg(100), now=now())
    runner.show(10)
    with viewer(env, job) as one:
        assert level(one.next()) == 10
        runner.is_broken = True
        assert until(lambda: level(one.next()), lambda seen: seen == 100)
        runner.is_broken = False
        runner.show(50)
        assert until(lambda: level(one.next()), lambda seen: seen == 50)
    assert runner.begun == 2


def test_without_any_picture_the_answer_is_that_it_is_not_ready(
    env: VideoWeb, runner: Runner, job: VideoJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "FIRST_WITHIN_S", 0.5)
    runner.is_broken = True
    answer = httpx.get(f"{env.url}/user/video/{job.uid}", trust_env=False)
    assert (answer.status_code, answer.json()["status"], answer.json()["code"]) == (503, 1, "NO_PICTURE")
    assert feeds(env) == {}


def test_the_picture_of_a_job_that_has_ended_is_its_last(env: VideoWeb, runner: Runner, job: VideoJob) -> None:
    env.video.pictures.put_snapshot(job.node, job.uid, jpeg(100), now=now())
    runner.is_broken = True
    env.video.jobs.cancel(env.user, job.uid, now=now())
    with viewer(env, job) as one:
        assert level(one.next()) == 100
        with pytest.raises(StopIteration):
            one.next()


def test_so_many_may_look_and_no_more(
    env: VideoWeb, runner: Runner, job: VideoJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "MAX_VIEWERS", 2)
    runner.show(10)
    with viewer(env, job) as one, viewer(env, job) as other:
        one.next()
        other.next()
        answer = httpx.get(f"{env.url}/user/video/{job.uid}", trust_env=False)
        assert (answer.status_code, answer.json()["status"]) == (429, 1)


def test_who_may_look_no_longer_sees_no_more(
    env: VideoWeb, runner: Runner, job: VideoJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "HOLDS_S", 0.05)
    env.container.accounts.users.create("alice", Role.USER, by="test")
    token, text = env.container.accounts.tokens.issue("alice", by="test")
    hers = env.running("alice")
    runner.show(10)
    with (
        httpx.Client(base_url=env.url, timeout=60, trust_env=False) as client,
        client.stream("GET", f"/user/video/{hers.uid}", headers={"Authorization": f"Bearer {text}"}) as answer,
    ):
        one = Viewer(answer)
        assert level(one.next()) == 10
        env.container.accounts.tokens.revoke("alice", token.token_id, by="test")
        with pytest.raises(StopIteration):
            one.next()
