"""What holds after every fault, whatever it was. The one place that says so; each test adds what is special to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import redis

from app.conversion.model import Stage
from app.kit.sandbox import namespaces
from app.standalone.processes import SCHEDULER, STAGES
from tests.harness.faults.deployment import FaultDeployment, Job, parent
from tests.harness.processes import is_alive
from tests.harness.surroundings import MARK
from tests.harness.until import until

ONCE = {stage.step: 1 for stage in Stage}
FORKSERVER = b"fork_server"
ONNXRUNTIME_SESSION = ".ses"
"""A file that onnxruntime leaves in the folder for temporary files; one, however often it is used."""
QUEUES = (*STAGES, *SCHEDULER.queues)


def assert_recovered(
    deployment: FaultDeployment, jobs: Iterable[Job], *, forgotten: Iterable[Job] = ()
) -> dict[str, Any]:
    """The fault is over and nothing of it has stayed. forgotten: jobs that a reset of Redis took with it.

    Returns what the API shows of each job, by its id.
    """
    jobs, forgotten = list(jobs), list(forgotten)
    deployment.man()
    shown = {job.job_id: ended(deployment, job) for job in jobs}
    for job in forgotten:
        assert_forgotten(deployment, job)
    deployment.works_on()
    for job in (*jobs, *forgotten):
        assert not any(count > 1 for count in job.starts().values()), f"a stage ran twice: {job.starts()}"
        if shown.get(job.job_id, {}).get("status") == "COMPLETED":
            assert job.starts() == ONCE, f"{job.job_id} is COMPLETED: {job.starts()}"
    with deployment.calm():
        until(
            lambda: not litter(deployment),
            what=lambda: f"nothing is left over: {litter(deployment)}; {_slots(deployment)}",
        )
    return shown


def ended(deployment: FaultDeployment, job: Job) -> dict[str, Any]:
    """What the API shows of a job that has come to its end, in words that a user can read."""
    until(lambda: deployment.record(job).is_terminal, what=lambda: f"job {job.job_id} hangs: {deployment.record(job)}")
    status, shown = deployment.shown(job)
    assert status == 200, shown
    assert shown["finished_at"]
    if shown["status"] == "COMPLETED":
        assert shown["error"] is None
        assert shown["output"]["nef_key"]
    else:
        assert shown["status"] == "FAILED"
        assert shown["error"]["reason"], shown["error"]
        assert shown["error"]["hint"], shown["error"]
        assert shown["error"]["code"], shown["error"]
    return shown


def assert_forgotten(deployment: FaultDeployment, job: Job) -> None:
    """The user is told that it is gone, why, and what to do."""
    status, shown = deployment.shown(job)
    assert (status, shown["error"]["code"]) == (404, "JOB_NOT_FOUND"), shown
    assert "系統已重啟,請重新送出" in shown["error"]["hint"]


def litter(deployment: FaultDeployment) -> list[str]:
    """What must not be there while no job is under way: orphans, folders, messages."""
    return [*_orphans(deployment), *_folders(deployment), *_messages(deployment)]


def _slots(deployment: FaultDeployment) -> dict[str, str]:
    """What each worker says it is doing, its name among the readers included: to find out whose litter it is."""
    return {path.stem: path.read_text().strip() for path in (deployment.folder / "data" / "run" / "slots").iterdir()}


def _folders(deployment: FaultDeployment) -> Iterator[str]:
    for folder in (deployment.folder / "data" / "work", deployment.temporary):
        if folder.exists():
            yield from (f"{folder.name}/{path.name}" for path in folder.iterdir() if path.name != ONNXRUNTIME_SESSION)


def _messages(deployment: FaultDeployment) -> Iterator[str]:
    client: redis.Redis = deployment.container.broker.client
    for queue in QUEUES:
        key = f"queue:{queue}"
        count = client.llen(key), client.hlen(f"{key}.msgs"), client.hlen(f"{key}.XQ.msgs")
        if any(count):
            yield f"messages on {queue} (waiting, kept, dead): {count}"
    yield from (f"unacknowledged: {key.decode()}" for key in client.scan_iter("queue:__acks__.*"))
    yield from (f"active: {job_id}" for job_id in deployment.container.store.records.active_ids())


@cache
def _has_namespaces() -> bool:
    return bool(namespaces.available() & namespaces.PROCESSES)


def _orphans(deployment: FaultDeployment) -> Iterator[str]:
    """Processes here that are neither a part of it, nor a worker below one, nor a worker's idle fork server, which may
    have one above it that waits for it.

    The mark is inherited by whatever a stage starts, in whatever session. A worker that began as a copy shows it to
    nobody, but writes into a log of ours, and so does whatever is forked from it.
    """
    ours = dict(_of(deployment))
    expected = set(deployment.roots())
    todo = list(expected)
    while todo:
        above = todo.pop()
        if FORKSERVER in ours.get(above, b""):
            # What an idle one has below it is a stage that nobody waits for.
            waits = _has_namespaces() and FORKSERVER not in ours.get(parent(above), b"")
            expected.update(pid for pid in ours if waits and parent(pid) == above)
            continue
        below = [pid for pid in ours if pid not in expected and parent(pid) == above]
        expected.update(below)
        todo += below
    for pid in ours.keys() - expected:
        if is_alive(pid):
            yield f"process {pid}: {ours[pid].replace(bytes(1), b' ').decode()[:200]}"


def _of(deployment: FaultDeployment) -> Iterator[tuple[int, bytes]]:
    mark = f"{MARK}={deployment.mark}".encode()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                is_marked = mark in (folder / "environ").read_bytes().split(bytes(1))
                if is_marked or (folder / "fd" / "1").readlink().is_relative_to(deployment.folder):
                    yield int(folder.name), (folder / "cmdline").read_bytes()
            except OSError:
                continue  # it ended while we looked
