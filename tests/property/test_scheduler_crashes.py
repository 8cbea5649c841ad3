"""The scheduler dies between any two of its deeds, and the next one goes on: one Ray job for each attempt, whatever."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from app.accounts_wiring import MIGRATIONS
from app.kit.sql import Database
from app.kit.sql.migrating import upgrade
from app.training import store
from app.training.gateway import RayStatus
from app.training.model import ACTIVE, FailureKind, State
from app.training.service.scheduling import LogCopies, claiming, copying, ending, submitting
from tests.harness.training.scripted_ray import TOO_FEW, Bench, ScriptedRay

DEEDS = 200
"""More than any of these stories has."""


class Crash(BaseException):
    """As a kill: nothing catches it."""


class Faults:
    """Dies before or after the deed of this number. A deed: whatever is told to the store, the disk or Ray."""

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
    for name in ("apply", "change_attempt", "add_attempt", "add_event", "note_waiting"):
        monkeypatch.setattr(store, name, made.around(getattr(store, name)))
    for name in ("grow", "replace", "end"):
        monkeypatch.setattr(LogCopies, name, made.around(getattr(LogCopies, name)))
    monkeypatch.setattr(submitting, "write_papers", made.around(submitting.write_papers))
    for name in ("submit", "stop", "job", "nodes", "placement_groups", "log", "log_tail"):
        monkeypatch.setattr(ScriptedRay, name, made.around(getattr(ScriptedRay, name)))
    return made


@pytest.fixture(scope="module")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("empty") / "db"
    database = Database(f"sqlite:///{path}")
    upgrade(database, MIGRATIONS)
    database.close()
    return path


@pytest.fixture
def benches(empty_database: Path, tmp_path: Path, faults: Faults) -> Iterator[Callable[[], Bench]]:
    """A new one for each call."""
    made: list[Bench] = []

    def make() -> Bench:
        folder = tmp_path / str(len(made))
        folder.mkdir()
        shutil.copy(empty_database, folder / "db")
        bench = Bench(Database(f"sqlite:///{folder / 'db'}"), folder / "homes", ScriptedRay(8), retry_interval_s=5)
        for name in ("begun", "ended"):
            folders: Any = bench.homes.folders
            setattr(folders, name, faults.around(getattr(folders, name)))
        made.append(bench)
        return bench

    yield make
    for bench in made:
        bench.database.close()


def story_of_a_success(bench: Bench) -> None:
    bench.add("one")
    bench.add("next")


def go_on(bench: Bench) -> None:
    """What a cluster does between two ticks: the first attempt finds too few GPUs, all others succeed."""
    for submission_id, found in list(bench.ray.jobs.items()):
        if found.job.status is RayStatus.PENDING:
            bench.ray.run(submission_id, log=b"working\n")
        elif found.job.status is RayStatus.RUNNING and submission_id == "one--a01":
            bench.ray.write(submission_id, f"{TOO_FEW}\n".encode())
            bench.ray.fail(submission_id, TOO_FEW)
        elif found.job.status is RayStatus.RUNNING:
            bench.ray.end(submission_id)


@pytest.mark.slow
@pytest.mark.parametrize("is_after", [False, True], ids=["before the deed", "after the deed"])
def test_whenever_the_scheduler_dies_each_attempt_is_one_ray_job(
    benches: Callable[[], Bench], faults: Faults, is_after: bool
) -> None:
    faults.is_after = is_after
    crashes = 0
    for deed in range(DEEDS):
        bench = benches()
        story_of_a_success(bench)
        faults.left = deed
        for _ in range(20):
            try:
                bench.tick(5)
            except Crash:
                crashes += 1
                bench.restart()
            go_on(bench)
        has_crashed, faults.left = faults.left < 0, None
        assert bench.submitted() == ["one--a01", "one--a02", "next--a01"], deed
        assert [attempt.failure_kind for attempt in bench.attempts("one")] == [
            FailureKind.INSUFFICIENT_RESOURCES, None,
        ], deed  # fmt: skip
        for name in ("one", "next"):
            assert bench.state(name) is State.SUCCEEDED, deed
            moves = [detail["to"] for detail in bench.events(name, "STATE")]
            assert moves.count("SUBMITTING") == len(bench.attempts(name)), deed
        assert b"less than total desired" in bench.log("one--a01"), deed
        assert not _folders_without_end(bench), deed
        if not has_crashed:
            break
    assert crashes == deed > 40


def _folders_without_end(bench: Bench) -> list[str]:
    return [times.name for times in bench.homes.folders.times("alice") if times.ended_at is None]


@pytest.mark.slow
def test_whenever_the_scheduler_dies_a_cancel_is_carried_out(benches: Callable[[], Bench], faults: Faults) -> None:
    for deed in range(DEEDS):
        bench = benches()
        bench.running("one")
        bench.cancel("one")
        faults.left = deed
        for _ in range(8):
            try:
                bench.tick(5)
            except Crash:
                bench.restart()
        has_crashed, faults.left = faults.left < 0, None
        assert bench.state("one") is State.CANCELED, deed
        assert bench.submitted() == ["one--a01"], deed
        if not has_crashed:
            break
    assert deed > 8


def test_the_deeds_that_are_broken_off_are_those_that_the_steps_do() -> None:
    """The faults are put in place by name: these modules reach the store by its name too."""
    for module in (claiming, copying, ending, submitting):
        assert vars(module)["store"] is store


# --- a random walk ----------------------------------------------------------------------------------
class Weather:
    """Random luck for every job, and for Ray as a whole."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def pass_over(self, bench: Bench) -> None:
        ray, luck = bench.ray, self.random
        ray.away = {luck.choice(["*", "submit", "nodes", "log", "job"])} if luck.random() < 0.1 else set()
        ray.keeps_answer = luck.random() < 0.1
        for submission_id, found in list(ray.jobs.items()):
            if found.job.status is RayStatus.PENDING and luck.random() < 0.6:
                ray.run(submission_id, log=b"begun\n")
            elif found.job.status is RayStatus.RUNNING:
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
            ray.forget(submission_id)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_through_any_weather_every_task_ends_and_the_cluster_is_never_overcommitted(
    benches: Callable[[], Bench], faults: Faults, seed: int
) -> None:
    bench, weather = benches(), Weather(seed)
    luck = weather.random
    names = [bench.add(f"t{number}", luck.randint(1, 8), backfill=luck.random() < 0.2) for number in range(25)]
    faults.is_after = seed % 2 == 0
    for _ in range(600):
        if luck.random() < 0.1:
            name = luck.choice(names)
            if not bench.task(name).is_terminal and bench.state(name) is not State.CANCELING:
                bench.cancel(name)
        faults.left = luck.randrange(30) if luck.random() < 0.3 else None
        try:
            bench.tick(luck.randint(1, 8))
        except Crash:
            bench.restart()
        faults.left = None
        assert _gpus_asked_for(bench) <= 8
        assert len(set(bench.submitted())) == len(bench.submitted())
        weather.pass_over(bench)
        if all(bench.task(name).is_terminal for name in names):
            break
    assert [name for name in names if not bench.task(name).is_terminal] == []
    assert not any(job.job.status in (RayStatus.PENDING, RayStatus.RUNNING) for job in bench.ray.jobs.values())
    assert not _folders_without_end(bench)
    for name in names:
        numbers = [attempt.attempt_no for attempt in bench.attempts(name)]
        assert numbers == list(range(1, len(numbers) + 1)), name


def _gpus_asked_for(bench: Bench) -> int:
    """By the jobs that Ray has and that have not ended."""
    jobs = [name for name, found in bench.ray.jobs.items() if not found.job.status.is_terminal]
    tasks = {name.partition("--")[0] for name in jobs}
    assert len(tasks) == len(jobs), "two jobs of one task at once"
    assert all(bench.state(task) in ACTIVE for task in tasks)
    return sum(bench.task(task).demand.gpus for task in tasks)
