"""The scheduler dies between any two of its deeds, and the next one goes on: one Ray job for each attempt, whatever.

A killed process leaves what was committed, the files and what Ray has, and nothing else. A story is told once; before
and after each deed of the scheduler that is noted, and from everything that a kill may have left another scheduler
tells the story to its end.
"""

from __future__ import annotations

import copy
import random
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from app.homes.retention import Folders
from app.training import store
from app.training.gateway import RayStatus
from app.training.model import ACTIVE, RELEASE_AFTER, FailureKind, State
from app.training.service.scheduling import LogCopies, admission, completion, ray_sync
from tests.harness.migrated import migrated_database, unsynced
from tests.harness.timed_search import seeds
from tests.harness.training.scripted_ray import TOO_FEW, Bench, ScriptedRay
from tests.harness.variants import exhaustive

TICKS = 20
"""More than any of these stories needs."""
WALKS, WALKS_S = 1, 5
"""So many walks at least, and more as long as they have not used so many seconds of the processor."""


def replace_deeds(patch: pytest.MonkeyPatch, around: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """A deed: whatever is told to the store, the disk or Ray, and what Ray is asked."""
    for name in ("apply", "change_attempt", "add_attempt", "add_event", "note_waiting"):
        patch.setattr(store, name, around(getattr(store, name)))
    for name in ("grow", "replace", "end"):
        patch.setattr(LogCopies, name, around(getattr(LogCopies, name)))
    patch.setattr(admission, "write_files", around(admission.write_files))
    for name in ("submit", "stop", "job", "nodes", "placement_groups", "log", "log_tail"):
        patch.setattr(ScriptedRay, name, around(getattr(ScriptedRay, name)))
    for name in ("begun", "ended"):
        patch.setattr(Folders, name, around(getattr(Folders, name)))


def test_the_deeds_that_are_broken_off_are_those_that_the_steps_do() -> None:
    """They are replaced by name: these modules reach the store by its name too."""
    for module in (admission, completion, ray_sync):
        assert vars(module)["store"] is store


def new_bench(folder: Path) -> Bench:
    return Bench(migrated_database(folder / "db"), folder / "homes", ScriptedRay(8), retry_interval_s=5)


# --- a kill between any two deeds ---------------------------------------------------------------------
@dataclass(frozen=True)
class Remains:
    """What a kill leaves of a bench. after: so many deeds were begun or done."""

    after: int
    now: datetime
    folder: Path
    ray: ScriptedRay

    def bench(self) -> Bench:
        """Another process goes on with them."""
        made = Bench(unsynced(self.folder / "db"), self.folder / "homes", self.ray, retry_interval_s=5)
        made.now = self.now
        return made


class Recorder:
    """Notes what a kill would leave, before and after each deed, as often as it is something else."""

    def __init__(self, folder: Path) -> None:
        self.remains: list[Remains] = []
        self.deeds = 0
        self._folder = folder
        self._bench: Bench | None = None
        self._last: object = None

    def around(self, deed: Callable[..., Any]) -> Callable[..., Any]:
        def recorded(*arguments: Any, **named: Any) -> Any:
            if self._bench is None:
                return deed(*arguments, **named)
            self.deeds += 1
            self._note(2 * self.deeds)
            done = deed(*arguments, **named)
            self._note(2 * self.deeds + 1)
            return done

        return recorded

    def record(self, bench: Bench, story: Callable[[Bench], None]) -> None:
        self._bench = bench
        with sqlite3.connect(bench.root.parent / "db") as self._committed:
            story(bench)
        self._committed.close()
        self._bench = None

    def _note(self, after: int) -> None:
        assert self._bench is not None
        [version] = self._committed.execute("PRAGMA data_version").fetchone()
        root, ray = self._bench.root, self._bench.ray
        files = [(path, path.lstat()) for path in sorted(root.rglob("*"))]
        states = [(path, state.st_ino, state.st_size, state.st_mtime_ns, state.st_mode) for path, state in files]
        left = (self._bench.now, version, states, repr(ray.jobs), repr(ray.submissions))
        if left == self._last:
            return
        self._last = left
        folder = self._folder / str(after)
        shutil.copytree(root, folder / "homes", symlinks=True)
        with sqlite3.connect(folder / "db") as database:
            self._committed.backup(database)
        database.close()
        self.remains.append(Remains(after, self._bench.now, folder, copy.deepcopy(ray)))


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Recorder:
    made = Recorder(tmp_path)
    replace_deeds(monkeypatch, made.around)
    return made


def tell(bench: Bench) -> None:
    """Until all tasks have ended, and twice more."""
    left = 2
    for _ in range(TICKS):
        bench.tick(5)
        go_on(bench)
        if all(bench.task(name).is_terminal for name in ("one", "next")):
            left -= 1
        if not left:
            return
    raise AssertionError("the story has no end")


def go_on(bench: Bench) -> None:
    """What a cluster does between two ticks: the first attempt finds too few GPUs, all others succeed."""
    for submission_id, job in list(bench.ray.jobs.items()):
        if job.job.status is RayStatus.PENDING:
            bench.ray.run(submission_id, log=b"working\n")
        elif job.job.status is RayStatus.RUNNING and submission_id == "one--a01":
            bench.ray.write(submission_id, f"{TOO_FEW}\n".encode())
            bench.ray.fail(submission_id, TOO_FEW)
        elif job.job.status is RayStatus.RUNNING:
            bench.ray.end(submission_id)


def check(bench: Bench) -> None:
    assert bench.submitted() == ["one--a01", "one--a02", "next--a01"]
    assert [attempt.failure_kind for attempt in bench.attempts("one")] == [FailureKind.INSUFFICIENT_RESOURCES, None]
    for name in ("one", "next"):
        assert bench.state(name) is State.SUCCEEDED
        moves = [detail["to"] for detail in bench.events(name, "STATE")]
        assert moves.count("SUBMITTING") == len(bench.attempts(name))
    assert b"less than total desired" in bench.log("one--a01")
    assert not _folders_without_end(bench)


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, *exhaustive(1, 2)])
def test_whenever_the_scheduler_dies_each_attempt_is_one_ray_job(
    recorder: Recorder, tmp_path: Path, first: int
) -> None:
    """One of three kills at a time; many leave nearly the same as the one before."""
    bench = new_bench(tmp_path / "whole")
    for name in ("one", "next"):
        bench.add(name)
    recorder.record(bench, tell)
    check(bench)
    bench.database.close()
    for left in recorder.remains[first::3]:
        bench = left.bench()
        try:
            go_on(bench)
            tell(bench)
            check(bench)
        except AssertionError as error:
            error.add_note(f"It died at {left.after} of {2 * recorder.deeds}.")
            raise
        finally:
            bench.database.close()
    assert recorder.deeds > 40
    assert len(recorder.remains) > 20


def _folders_without_end(bench: Bench) -> list[str]:
    return [times.name for times in bench.homes.folders.times("alice") if times.ended_at is None]


@pytest.mark.slow
@pytest.mark.parametrize("is_released", [False, True])
def test_whenever_the_scheduler_dies_a_cancel_is_carried_out(
    recorder: Recorder, tmp_path: Path, is_released: bool
) -> None:
    def ticks(bench: Bench) -> None:
        for _ in range(8):
            bench.tick(5)

    bench = new_bench(tmp_path / "whole")
    bench.running("one")
    bench.cancel("one")
    if is_released:
        bench.now += RELEASE_AFTER
        bench.release("one")
    recorder.record(bench, ticks)
    bench.database.close()
    for left in recorder.remains:
        bench = left.bench()
        ticks(bench)
        assert bench.state("one") is State.CANCELED, left.after
        assert bench.submitted() == ["one--a01"], left.after
        assert bench.ray.jobs["one--a01"].job.status is RayStatus.STOPPED, left.after
        assert bench.attempts("one")[0].ended_at is not None, left.after
        bench.database.close()
    assert recorder.deeds > 8
    assert len(recorder.remains) > 5


# --- a random walk ----------------------------------------------------------------------------------
class Crash(BaseException):
    """As a kill: nothing catches it."""


class Faults:
    """Dies before or after the deed of this number."""

    def __init__(self) -> None:
        self.left: int | None = None
        self.is_after = False

    def around(self, deed: Callable[..., Any]) -> Callable[..., Any]:
        def faulty(*arguments: Any, **named: Any) -> Any:
            is_now = self.left == 0
            if self.left is not None:
                self.left -= 1
            if is_now and not self.is_after:
                raise Crash
            done = deed(*arguments, **named)
            if is_now:
                raise Crash
            return done

        return faulty


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Faults:
    made = Faults()
    replace_deeds(monkeypatch, made.around)
    return made


class Weather:
    """Random luck for every job, and for Ray as a whole."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.forgotten_unheard: list[str] = []
        """What Ray took and lost before any scheduler had noted that it has it. That cannot be told from what never
        reached Ray, so it is submitted once more, under the name that Ray takes only once."""

    def pass_over(self, bench: Bench) -> None:
        ray, luck = bench.ray, self.random
        ray.away = {luck.choice(["*", "submit", "nodes", "log", "job"])} if luck.random() < 0.1 else set()
        ray.keeps_answer = luck.random() < 0.1
        for submission_id, job in list(ray.jobs.items()):
            if job.job.status is RayStatus.PENDING and luck.random() < 0.6:
                ray.run(submission_id, log=b"begun\n")
            elif job.job.status is RayStatus.RUNNING:
                self._one(bench, submission_id)

    def _one(self, bench: Bench, submission_id: str) -> None:
        ray, luck = bench.ray, self.random.random()
        demand = bench.task(submission_id.partition("--")[0]).demand
        if luck < 0.3 and not ray.jobs[submission_id].groups:
            free = max(ray.sizes, key=lambda node: ray.sizes[node] - ray.taken[node])
            ray.claim(submission_id, (free, demand.gpus))
        elif luck < 0.5:
            ray.end(submission_id)
        elif luck < 0.55:
            ray.fail(submission_id, TOO_FEW)
        elif luck < 0.6:
            ray.fail(submission_id, "RuntimeError: no")
        elif luck < 0.65:
            ray.lose_node(submission_id)
        elif luck < 0.67:
            if bench.state(submission_id.partition("--")[0]) is State.SUBMITTING:
                self.forgotten_unheard.append(submission_id)
            ray.forget(submission_id)


@pytest.mark.slow
def test_through_any_weather_every_task_ends_and_the_cluster_is_never_overcommitted(
    tmp_path: Path, faults: Faults
) -> None:
    for seed in seeds(WALKS_S, least=WALKS):
        bench = new_bench(tmp_path / str(seed))
        walk(bench, faults, seed)
        bench.database.close()


def walk(bench: Bench, faults: Faults, seed: int) -> None:
    weather = Weather(seed)
    luck = weather.random
    names = [bench.add(f"t{number}", luck.randint(1, 8), backfill=luck.random() < 0.2) for number in range(25)]
    faults.is_after = seed % 2 == 0
    for _ in range(600):
        if luck.random() < 0.1:
            name = luck.choice(names)
            if bench.state(name) is State.CANCELING:
                bench.release(name, later=RELEASE_AFTER)
            elif not bench.task(name).is_terminal:
                bench.cancel(name)
        faults.left = luck.randrange(30) if luck.random() < 0.3 else None
        try:
            bench.tick(luck.randint(1, 8))
        except Crash:
            bench.restart()
        faults.left = None
        assert _gpus_asked_for(bench) <= 8
        again = Counter(bench.submitted()) - Counter(set(bench.submitted()))
        assert not again - Counter(weather.forgotten_unheard)
        weather.pass_over(bench)
        if all(_is_over(bench, name) for name in names):
            break
    assert [name for name in names if not _is_over(bench, name)] == []
    assert not any(job.job.status in (RayStatus.PENDING, RayStatus.RUNNING) for job in bench.ray.jobs.values())
    assert not _folders_without_end(bench)
    for name in names:
        numbers = [attempt.attempt_no for attempt in bench.attempts(name)]
        assert numbers == list(range(1, len(numbers) + 1)), name


def _is_over(bench: Bench, name: str) -> bool:
    """What was let go is CANCELED at once, and its attempt has an end when Ray has said so."""
    return bench.task(name).is_terminal and all(attempt.ended_at for attempt in bench.attempts(name))


def _gpus_asked_for(bench: Bench) -> int:
    """By the jobs that Ray has and that have not ended."""
    jobs = [name for name, job in bench.ray.jobs.items() if not job.job.status.is_terminal]
    tasks = {name.partition("--")[0] for name in jobs}
    assert len(tasks) == len(jobs), "two jobs of one task at once"
    assert all(bench.state(task) in ACTIVE or not _is_over(bench, task) for task in tasks)
    return sum(bench.task(task).demand.gpus for task in tasks)
