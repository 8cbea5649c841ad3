"""The process that schedules training: it begins when it starts, users wake it, and its heir goes on when it dies."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.bootstrap.container import Container, assemble
from app.kit.clock import now
from app.training import store
from app.training.model import State, Task
from app.training.service.leader import LEASE
from tests.harness.deployment import DRAMATIQ, Deployment, Process
from tests.harness.until import PATIENCE_S, until

SPEC = b"workload: script\ncode_path: /private/common/code/digits\n"
RAY = "http://127.0.0.1:8265"
pytestmark = pytest.mark.slow


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    """With a scheduler that hardly looks by itself, and a pulse, for a turn ends with its minute."""
    with Deployment(tmp_path, ray_address=RAY, training_tick_s="50") as made:
        made.start([str(Path(DRAMATIQ).with_name("periodiq")), "actors"])
        yield made


@pytest.fixture
def container(deployment: Deployment) -> Iterator[Container]:
    made = assemble(deployment.settings().model_copy(update={"ray_address": RAY}))
    made.prepare()
    made.homes.files.create("local")
    program = made.homes.options.root / "common" / "code" / "digits" / "train.py"
    program.parent.mkdir(parents=True)
    program.write_text("")
    yield made
    made.close()


def worker(deployment: Deployment, module: str = "tests.standins.training_actors") -> Process:
    queues = ("training", "training_results")
    return deployment.start([DRAMATIQ, module, "--queues", *queues, "--processes", "1", "--threads", "2"])


def leads(deployment: Deployment) -> int:
    """How often a leader has looked at the cluster."""
    return len(lines(deployment, "looks"))


def lines(deployment: Deployment, name: str) -> list[str]:
    path = deployment.folder / "data" / "ray" / name
    return path.read_text().splitlines() if path.exists() else []


def submitted(deployment: Deployment) -> list[str]:
    return [line.split()[0] for line in lines(deployment, "submissions")]


def task(container: Container, task_id: str) -> Task:
    with container.database.read() as conn:
        stored = store.get_task(conn, task_id)
    assert stored is not None
    return stored


def test_a_worker_schedules_as_soon_as_it_has_started_and_a_submission_and_a_cancel_wake_it(
    deployment: Deployment, container: Container
) -> None:
    waiting, _ = container.training.tasks.submit("local", SPEC, now=now())
    worker(deployment)
    until(lambda: not task(container, waiting.task_id).is_waiting)
    woken, _ = container.training.tasks.submit("local", SPEC, now=now())
    until(lambda: f"{woken.task_id}--a01" in submitted(deployment))
    container.training.tasks.changes.cancel("local", woken.task_id, now=now())
    container.training.tasks.submit("local", SPEC, now=now())
    until((deployment.folder / "data" / "ray" / f"{woken.task_id}--a01.end").exists)
    folder = deployment.folder / "data" / "homes" / "users" / "local" / "jobs" / f"{waiting.task_id}--a01"
    until((folder / "driver.log").exists)
    assert (folder / "jobspec.yaml").read_bytes() == SPEC
    view = container.training.picture.get()
    assert view is not None
    assert [node.node_id for node in view.nodes] == ["node"]


def test_of_two_workers_one_leads_and_the_other_goes_on_when_it_is_killed(
    deployment: Deployment, container: Container
) -> None:
    first, _ = container.training.tasks.submit("local", SPEC, now=now())
    workers = [worker(deployment), worker(deployment)]
    until(lambda: lines(deployment, "submissions"))
    leader = int(lines(deployment, "submissions")[0].split()[1])
    killed = next(process for process in workers if os.getpgid(leader) == process.pid)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait(PATIENCE_S)
    second, _ = container.training.tasks.submit("local", SPEC, now=now())
    container.broker.send("training", "schedule")  # the next pulse
    until(lambda: f"{second.task_id}--a01" in submitted(deployment))
    until(lambda: task(container, first.task_id).state is State.RUNNING)
    assert submitted(deployment) == [f"{one.task_id}--a01" for one in (first, second)]
    assert len({line.split()[1] for line in lines(deployment, "submissions")}) == 2


def test_a_worker_that_is_told_to_end_ends_and_leaves_the_lease(deployment: Deployment, container: Container) -> None:
    ending = worker(deployment)
    until(lambda: leads(deployment) and deployment.redis.exists(LEASE))
    ending.send_signal(signal.SIGTERM)
    assert ending.wait(PATIENCE_S) == 0
    assert not deployment.redis.exists(LEASE)


def test_without_ray_the_worker_says_what_to_install_and_goes_on(
    deployment: Deployment, container: Container, tmp_path: Path
) -> None:
    none = tmp_path / "none"
    none.mkdir()
    (none / "ray.py").write_text("raise ImportError('there is no Ray')\n")
    deployment.env["PYTHONPATH"] = f"{none}:{deployment.env['PYTHONPATH']}"
    worker(deployment, "actors")
    log = deployment.folder / "1.log"
    until(lambda: "modelmill[train]" in log.read_text())
    container.broker.send("training_results", "convert_results", message_id="m", task_id="unknown")
    until(lambda: not container.broker.holds("training_results", "m"))
    assert "Traceback" not in log.read_text()
