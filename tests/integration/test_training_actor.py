"""The process that schedules training: it begins when it starts, users wake it, and its heir goes on when it dies."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.kit.clock import now
from app.training import store
from app.training.model import State, Task
from app.training.service.leading import LEASE
from app.wiring import Parts, assemble
from ops.stand import DRAMATIQ, Stand
from tests.integration.api import until

SPEC = b"workload: script\ncode_path: /private/common/code/digits\n"
RAY = "http://127.0.0.1:8265"
pytestmark = pytest.mark.slow


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[Stand]:
    """With a scheduler that hardly looks by itself, and a pulse, for a turn ends with its minute."""
    with Stand(tmp_path, ray_address=RAY, training_tick_s="50") as made:
        made.start([str(Path(DRAMATIQ).with_name("periodiq")), "actors"])
        yield made


@pytest.fixture
def parts(stand: Stand) -> Iterator[Parts]:
    made = assemble(stand.settings().model_copy(update={"ray_address": RAY}))
    made.prepare()
    made.homes.files.create("local")
    program = made.homes.options.root / "common" / "code" / "digits" / "train.py"
    program.parent.mkdir(parents=True)
    program.write_text("")
    yield made
    made.close()


def worker(stand: Stand, module: str = "tests.standins.training_actors") -> subprocess.Popen[bytes]:
    queues = ("training", "training_results")
    return stand.start([DRAMATIQ, module, "--queues", *queues, "--processes", "1", "--threads", "2"])


def leads(stand: Stand) -> int:
    """How often a leader has looked at the cluster."""
    return len(lines(stand, "looks"))


def lines(stand: Stand, name: str) -> list[str]:
    path = stand.folder / "data" / "ray" / name
    return path.read_text().splitlines() if path.exists() else []


def submitted(stand: Stand) -> list[str]:
    return [line.split()[0] for line in lines(stand, "submissions")]


def task(parts: Parts, task_id: str) -> Task:
    with parts.database.read() as on:
        found = store.get_task(on, task_id)
    assert found is not None
    return found


def test_a_worker_schedules_as_soon_as_it_has_started_and_a_submission_and_a_cancel_wake_it(
    stand: Stand, parts: Parts
) -> None:
    waiting, _ = parts.training.tasks.submit("local", SPEC, now=now())
    worker(stand)
    until(lambda: not task(parts, waiting.task_id).is_waiting)
    woken, _ = parts.training.tasks.submit("local", SPEC, now=now())
    until(lambda: f"{woken.task_id}--a01" in submitted(stand))
    parts.training.tasks.cancel("local", woken.task_id, now=now())
    parts.training.tasks.submit("local", SPEC, now=now())
    until((stand.folder / "data" / "ray" / f"{woken.task_id}--a01.end").exists)
    folder = stand.folder / "data" / "homes" / "users" / "local" / "jobs" / f"{waiting.task_id}--a01"
    until((folder / "driver.log").exists)
    assert (folder / "jobspec.yaml").read_bytes() == SPEC
    view = parts.training.picture.get()
    assert view is not None
    assert [node.node_id for node in view.nodes] == ["node"]


def test_of_two_workers_one_leads_and_the_other_goes_on_when_it_is_killed(stand: Stand, parts: Parts) -> None:
    first, _ = parts.training.tasks.submit("local", SPEC, now=now())
    workers = [worker(stand), worker(stand)]
    until(lambda: lines(stand, "submissions"))
    leader = int(lines(stand, "submissions")[0].split()[1])
    killed = next(process for process in workers if os.getpgid(leader) == process.pid)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait(10)
    second, _ = parts.training.tasks.submit("local", SPEC, now=now())
    parts.broker.send("training", "schedule")  # the next pulse
    until(lambda: f"{second.task_id}--a01" in submitted(stand))
    until(lambda: task(parts, first.task_id).state is State.RUNNING)
    assert submitted(stand) == [f"{one.task_id}--a01" for one in (first, second)]
    assert len({line.split()[1] for line in lines(stand, "submissions")}) == 2


def test_a_worker_that_is_told_to_end_ends_and_leaves_the_lease(stand: Stand, parts: Parts) -> None:
    ending = worker(stand)
    until(lambda: leads(stand) and stand.redis.exists(LEASE))
    ending.send_signal(signal.SIGTERM)
    assert ending.wait(30) == 0
    assert not stand.redis.exists(LEASE)


def test_without_ray_the_worker_says_what_to_install_and_goes_on(
    stand: Stand, parts: Parts, tmp_path: Path
) -> None:  # fmt: skip
    none = tmp_path / "none"
    none.mkdir()
    (none / "ray.py").write_text("raise ImportError('there is no Ray')\n")
    stand.env["PYTHONPATH"] = f"{none}:{stand.env['PYTHONPATH']}"
    worker(stand, "actors")
    log = stand.folder / "1.log"
    until(lambda: "modelmill[train]" in log.read_text())
    parts.broker.send("training_results", "convert_results", message_id="m", task_id="unknown")
    until(lambda: not parts.broker.holds("training_results", "m"))
    assert "Traceback" not in log.read_text()
