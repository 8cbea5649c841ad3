"""What GET /metrics and `modelmill health training` say of training: each is looked at after it was made to happen."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.settings import Settings
from tests.harness import command_line
from tests.harness.api import Api
from tests.harness.deployment import DRAMATIQ, Deployment
from tests.harness.exposition import Figures
from tests.harness.operations import figures, reaches
from tests.harness.training.scheduler import RAY, SCRIPT, TASKS, make_common
from tests.harness.training.tasks import show_cluster
from tests.harness.until import until
from tests.harness.users import Person, within

pytestmark = pytest.mark.slow
SAME_HOST = "http://127.0.0.1:8265"  # of which the stand-in for Ray is told


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    """Training is on."""
    with Deployment(tmp_path, ray_address=SAME_HOST, training_tick_s="1") as made:
        make_common(tmp_path / "data" / "homes")
        made.web()
        yield made


@pytest.fixture
def api(deployment: Deployment) -> Iterator[Api]:
    with Api(deployment.url) as client:
        yield client


def schedule(deployment: Deployment) -> None:
    """With a pulse, for a turn ends with its minute."""
    deployment.start([str(Path(DRAMATIQ).with_name("periodiq")), "actors"])
    queues = ("training", "training_results")
    deployment.start(
        [DRAMATIQ, "tests.standins.training_actors", "--queues", *queues, "--processes", "1", "--threads", "2"]
    )


def send(api: Api, gpus: int) -> str:
    answer = api.http.post(TASKS, content=f"{SCRIPT}n_gpus_per_node: {gpus}\n")
    assert answer.status_code == 201, answer.text
    task_id: str = answer.json()["task_id"]
    return task_id


def probe(**env: str) -> subprocess.CompletedProcess[str]:
    """env: the settings of the product."""
    return command_line.run("health", "training", environment={**os.environ, **env})


def test_a_task_that_runs_one_that_waits_and_the_end_of_the_first(deployment: Deployment, api: Api) -> None:
    schedule(deployment)
    first = send(api, 6)
    reaches(api, 1, "modelmill_training_tasks", state="RUNNING")
    reaches(api, 6, "modelmill_training_gpus", state="held")
    send(api, 8)
    reaches(api, 1, "modelmill_training_tasks", state="PENDING_RESOURCES")
    now = figures(api)
    assert now.value("modelmill_training_gpus", state="free") == 2
    assert now.value("modelmill_training_nodes") == 1
    assert (now.value("modelmill_training_scheduler_up"), now.value("modelmill_training_ray_up")) == (1, 1)
    age_s = now.value("modelmill_training_oldest_waiting_age_seconds")
    until(lambda: figures(api).value("modelmill_training_oldest_waiting_age_seconds") > age_s)
    (deployment.folder / "data" / "ray" / f"{first}--a01.end").touch()
    reaches(api, 1, "modelmill_training_attempts_ended_total", result="SUCCEEDED")
    reaches(api, 2, "modelmill_training_wait_seconds_count")
    reaches(api, 8, "modelmill_training_gpus", state="held")
    now = figures(api)
    assert now.value("modelmill_training_wait_seconds_sum") > age_s
    assert now.value("modelmill_training_tick_duration_seconds_count") > 2
    assert now.value("modelmill_training_oldest_waiting_age_seconds") == 0


def test_while_nobody_schedules_that_is_told_and_tasks_are_counted(shared: Deployment, alice: Person) -> None:
    show_cluster(shared, None)
    with alice.api() as api:
        before = figures(api).value("modelmill_training_tasks", state="QUEUED")
        answer = api.http.post(TASKS, content=SCRIPT)
        assert answer.status_code == 201, answer.text
        now = figures(api)
        api.http.post(f"{TASKS}/{answer.json()['task_id']}/cancel").raise_for_status()
    assert now.value("modelmill_training_scheduler_up") == 0
    assert "modelmill_training_scheduler_up" in now.families
    assert "modelmill_training_ray_up" not in now.families
    assert now.value("modelmill_training_tasks", state="QUEUED") == before + 1
    answer_now = probe(**shared.env)
    assert answer_now.returncode == 1
    assert "nobody has looked at the cluster" in answer_now.stderr


@pytest.mark.ray
def test_a_scheduler_is_well_also_when_ray_does_not_answer_it(tmp_path: Path) -> None:
    with Deployment(tmp_path, ray_address=RAY, training_tick_s="1") as deployment:
        deployment.web()
        deployment.start([DRAMATIQ, "actors", "--queues", "training", "--processes", "1", "--threads", "1"])
        answer_now = until(lambda: probe(**deployment.env), lambda answer: answer.returncode == 0)
        assert "Ray does not answer" in answer_now.stderr
        with Api(deployment.url) as api:
            now = figures(api)
        assert "modelmill_training_ray_up" in now.families
        assert now.value("modelmill_training_ray_up") == 0
        deployment.valkey.kill()
        answer_now = probe(**deployment.env)
        assert answer_now.returncode == 0
        assert "cannot tell" in answer_now.stderr


def test_where_training_is_off_nothing_is_told_of_it(settings: Settings) -> None:
    with within(settings) as asks:
        answer = asks.get("/metrics")
    told = [s.name for family in Figures(answer.text).families.values() for s in family.samples]
    assert "modelmill_jobs_active" in told
    assert not [name for name in told if "training" in name]
    answer_now = probe(MODELMILL_REDIS_URL=settings.redis_url, MODELMILL_DATA_DIR=str(settings.data_dir))
    assert answer_now.returncode == 1
    assert "MODELMILL_RAY_ADDRESS" in answer_now.stderr
