"""Receivers that have no room: what they have not confirmed is sent again, in order, and nothing else waits."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from app.results.model.sink import SinkKind
from app.video.model.job import JobState, VideoJob
from tests.harness.faults.backend_deployment import small_disk
from tests.harness.users import Within
from tests.harness.valkey import Valkey
from tests.harness.video.nodes import USER, Env
from tests.harness.video.sinks import Receiver, add, deliver, state, take

ROWS = [f"row/{number}" for number in range(2, 6)]


def check_is_said(web: Within, env: Env, job: VideoJob, problem: str) -> None:
    """On the page, while the job goes on and everything is kept."""
    word, received, backlog, reason = state(env, job.uid)
    assert (word, received, backlog) == ("failing", 1, 2), reason
    assert problem in reason
    assert problem in web.get(f"/ui/video/{job.uid}/sinks").text
    assert env.job(job.uid).state is JobState.EXEC
    assert env.job(job.uid).n_loop == 4


def fill(env: Env, job: VideoJob) -> None:
    """Two further rows, which nobody takes."""
    take(env, job.uid, 3, 4)
    deliver(env, job.uid)


def empty(env: Env, job: VideoJob) -> None:
    """There is room again."""
    take(env, job.uid, 5)
    deliver(env, job.uid)
    assert state(env, job.uid) == ("idle", 4, 0, "")


@pytest.mark.parametrize("status", [507, 500, 503])
def test_a_webhook_without_room(web: Within, env: Env, job: VideoJob, receiver: Receiver, status: int) -> None:
    add(env, job.uid, SinkKind.HTTP, receiver.url)
    take(env, job.uid, 2)
    deliver(env, job.uid)
    receiver.status = status
    fill(env, job)
    check_is_said(web, env, job, f"it answered {status}")
    taken = [body for _, body in receiver.requests[:1]]
    receiver.status = 200
    receiver.requests.clear()
    empty(env, job)
    taken += [body for _, body in receiver.requests]
    assert [one["id"] for body in taken for one in json.loads(body)] == ROWS


def test_a_stream_of_redis_without_room(web: Within, env: Env, job: VideoJob, tmp_path: Path) -> None:
    server = Valkey(tmp_path)
    try:
        add(env, job.uid, SinkKind.REDIS, server.url(0) + "/rows")
        take(env, job.uid, 2)
        deliver(env, job.uid)
        server.client.config_set("maxmemory", "1")
        fill(env, job)
        check_is_said(web, env, job, "Redis: command not allowed when used memory")
        server.client.config_set("maxmemory", "0")
        empty(env, job)
        assert [json.loads(fields[b"event"])["id"] for _, fields in server.client.xrange("rows")] == ROWS
    finally:
        server.kill()


def test_a_data_home_on_a_full_disk(web: Within, env: Env, job: VideoJob) -> None:
    files = env.container.homes.files
    add(env, job.uid, SinkKind.FILE, "datasets/door")
    home = env.container.settings.homes / "users" / USER
    with small_disk(home, "256k"):
        take(env, job.uid, 2)
        deliver(env, job.uid)
        filling = home / "datasets" / "filling"
        with filling.open("wb") as file, pytest.raises(OSError, match="No space"):
            file.write(bytes(1 << 20))
        fill(env, job)
        check_is_said(web, env, job, "full")
        filling.unlink()
        empty(env, job)
        (entry,) = files.browse(USER, "datasets/door").entries
        lines = b"".join(files.read(USER, entry.path)).splitlines()
    assert [json.loads(line)["id"] for line in lines] == ROWS


def test_a_data_home_on_a_disk_that_became_read_only(web: Within, env: Env, job: VideoJob) -> None:
    home = env.container.settings.homes / "users" / USER
    add(env, job.uid, SinkKind.FILE, "datasets/door")
    with small_disk(home, "256k"):
        take(env, job.uid, 2)
        deliver(env, job.uid)
        subprocess.run(["mount", "-o", "remount,ro", str(home)], check=True)
        fill(env, job)
        check_is_said(web, env, job, "The disk of the data homes is read-only")
        subprocess.run(["mount", "-o", "remount,rw", str(home)], check=True)
        empty(env, job)


def test_a_data_home_whose_disk_is_gone_is_not_made_anew_below_it(
    web: Within, env: Env, job: VideoJob, tmp_path: Path
) -> None:
    files, root = env.container.homes.files, env.container.settings.homes
    files.options = replace(files.options, mount=root)
    add(env, job.uid, SinkKind.FILE, "datasets/door")
    below = sorted(root.rglob("*.jsonl"))  # of other tests
    with small_disk(tmp_path / "disk", "1m") as disk:
        mounting, unmounting = ["mount", "--bind", str(disk), str(root)], ["umount", "--lazy", str(root)]
        subprocess.run(mounting, check=True)
        try:
            take(env, job.uid, 2)
            deliver(env, job.uid)
            subprocess.run(unmounting, check=True)
            fill(env, job)
            check_is_said(web, env, job, f"The disk of the data homes is not mounted at {root}")
            assert sorted(root.rglob("*.jsonl")) == below
            subprocess.run(mounting, check=True)
            empty(env, job)
            (file,) = root.rglob("*.jsonl")
            assert [json.loads(line)["id"] for line in file.read_text().splitlines()] == ROWS
        finally:
            subprocess.run(unmounting, check=False)
