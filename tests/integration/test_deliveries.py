"""Which worker gets which message: one job each, no more at once than workers, and every message to an actor."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from app.bootstrap.container import Container
from app.bootstrap.events import task_succeeded
from app.conversion.model import JobRecord, Stage
from app.joint_inference.service.task_info import UpstreamStatus
from app.kit.queue.broker import make_broker
from app.kit.queue.messages import DELAYED, Message, Queue
from app.training.model import Demand, State, Task, Workload
from tests.harness.faults.deployment import FaultDeployment, Job
from tests.harness.paths import REPOSITORY
from tests.harness.until import PATIENCE_S, until
from tests.harness.valkey import Valkey
from tests.harness.variants import exhaustive

ONCE = {"onnx": 1, "bie": 1, "nef": 1}
DECLARED = """
import json, actors
broker = actors.container.broker
print(json.dumps({name: [broker.get_actor(name).queue_name, broker.get_actor(name).options.get("max_retries")]
                  for name in broker.get_declared_actors()}))
"""
PULSES = """
import pendulum, actors
from periodiq import Scheduler
broker, start = actors.container.broker, pendulum.datetime(2030, 1, 1)
pulsed = [actor for actor in broker.actors.values() if "periodic" in actor.options]
for minute in range(60):
    at = start.add(minutes=minute)
    Scheduler(pulsed).send_actors([actor for actor in pulsed if actor.options["periodic"].validate(at)], at)
"""


@pytest.fixture(scope="module")
def shared_deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultDeployment]:
    with FaultDeployment(tmp_path_factory.mktemp("deliveries")) as made:
        yield made


@pytest.fixture
def deployment(shared_deployment: FaultDeployment) -> Iterator[FaultDeployment]:
    with shared_deployment.for_a_test() as ready:
        yield ready


# --- one job per worker -----------------------------------------------------------------------------
@pytest.mark.slow
def test_a_busy_worker_holds_no_second_job_while_its_sibling_idles(deployment: FaultDeployment) -> None:
    assert not [name for name in deployment.env if name.lower().startswith("dramatiq_")]
    for _ in range(2):
        deployment.worker("bie")
    jobs = []
    for _ in range(2):
        jobs.append(deployment.submit(bie="wait:gate"))
        until(lambda: deployment.runs(jobs[-1]), what="an idle worker took it")
    third = deployment.submit(bie="wait:gate")
    until(lambda: deployment.container.broker.position("bie", third.job_id) == 0, what="the third job waits")
    time.sleep(2.5)  # time enough for both to look again, and to take what they must not
    assert deployment.container.broker.waiting("bie") == 1
    jobs[1].release()
    until(lambda: deployment.runs(third), what="the worker that became free took it")
    workers = [deployment.record(job).stages["bie"].worker for job in (*jobs, third)]
    assert workers[0] != workers[1] == workers[2]
    for job in (jobs[0], third):
        job.release()
        assert deployment.ended(job).status == "COMPLETED"


@pytest.mark.slow
def test_three_workers_never_have_more_than_three_jobs_in_bie(deployment: FaultDeployment) -> None:
    for _ in range(3):
        deployment.worker("bie")
    first = [deployment.submit(bie="wait:gate") for _ in range(3)]
    for job in first:
        until(lambda job=job: deployment.runs(job, Stage("BIE")), what="the stage runs")
    jobs = [*first, *(deployment.submit(bie="sleep:0.3") for _ in range(7))]
    for job in first:
        job.release()
    records = [deployment.ended(job) for job in jobs]
    assert {record.status for record in records} == {"COMPLETED"}
    by_worker = _spans_by_worker(records)
    assert len(by_worker) == 3
    for spans in by_worker.values():  # one at a time each, so never more than three at once
        assert all(end <= start for (_, end), (start, _) in pairwise(sorted(spans)))
    assert [job.starts() for job in jobs] == [ONCE] * len(jobs)


def _spans_by_worker(records: list[JobRecord]) -> dict[str, list[tuple[str, str]]]:
    spans: dict[str, list[tuple[str, str]]] = {}
    for record in records:
        stage = record.stages["bie"]
        assert stage.worker
        assert stage.started_at
        assert stage.finished_at
        spans.setdefault(stage.worker, []).append((stage.started_at, stage.finished_at))
    return spans


# --- the same message twice -------------------------------------------------------------------------
@pytest.mark.slow
@pytest.mark.parametrize("step", ["bie", *exhaustive("onnx", "nef")])
def test_a_stage_whose_message_comes_twice_runs_once(deployment: FaultDeployment, step: str) -> None:
    """Once beside the first, on another worker; once after it."""
    for queue in ("bie", step):
        deployment.worker(queue)
    job = deployment.submit(**{step: "wait:gate"})
    until(lambda: deployment.runs(job, Stage(step.upper())), what="the stage runs")
    _send_again(deployment, step, job)
    job.release()
    assert deployment.ended(job).status == "COMPLETED"
    _send_again(deployment, step, job)
    assert deployment.record(job).status == "COMPLETED"
    assert job.starts() == ONCE


def _send_again(deployment: FaultDeployment, step: str, job: Job) -> None:
    deployment.container.broker.send(step, f"run_{step}", message_id="again", job_id=job.job_id)
    until(lambda: not deployment.container.broker.holds(step, "again"), what="the doubled message was dealt with")


@pytest.mark.slow
def test_done_and_sweep_may_come_twice(deployment: FaultDeployment) -> None:
    deployment.worker("bie")
    sweeper = deployment.start(deployment.command("periodic"))
    job = deployment.submit(bie="wait:gate")
    until(lambda: deployment.runs(job), what="the stage runs")
    for number in range(2):
        deployment.container.broker.send(
            "done", "done", message_id=f"d{number}", job_id=job.job_id, step="onnx", result="ok"
        )
        deployment.container.broker.send("periodic", "sweep", message_id=f"s{number}")
    for number in range(2):
        until(lambda: not deployment.container.broker.holds("done", f"d{number}"), what="done was dealt with")  # noqa: B023
        until(lambda: not deployment.container.broker.holds("periodic", f"s{number}"), what="sweep was dealt with")  # noqa: B023
    assert deployment.runs(job)
    job.release()
    assert deployment.ended(job).status == "COMPLETED"
    assert job.starts() == ONCE
    sweeper.terminate()
    sweeper.wait(PATIENCE_S)


# --- messages and actors ----------------------------------------------------------------------------
@pytest.fixture(scope="module")
def declared(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, int]]:
    """Every actor that a worker would know: name → (queue, max_retries)."""
    env = {"PATH": "/usr/bin:/bin", "MODELMILL_DATA_DIR": str(tmp_path_factory.mktemp("data"))}
    declared_tasks = subprocess.run(
        [sys.executable, "-c", DECLARED], cwd=REPOSITORY, env=env, capture_output=True, text=True, check=True
    )
    return {name: (queue, retries) for name, (queue, retries) in json.loads(declared_tasks.stdout).items()}


def test_every_message_that_is_sent_has_an_actor_on_its_queue(
    container: Container, declared: dict[str, tuple[str, int]]
) -> None:
    for stage in Stage:
        container.conversion.dispatch.enqueue(stage, "a-job")
    container.conversion.dispatch.send_done(job_id="a-job", step="bie", result="ok")
    container.waker.send(Message.APPLY_DOOR, entry_id=1)
    task_succeeded(container.waker, a_task())
    container.joint.services.wake("a-service")
    container.joint.reports.send("a-service", UpstreamStatus(status="running", uid="", task_info={}))
    container.calibrations.start("a-calibration")
    container.video.jobs.wake("a-video-job")
    container.video.planning.send("a-video-job", "start")
    sent = []
    for queue in Queue:
        sent += [json.loads(text) for text in container.broker.client.hvals(f"queue:{queue}.msgs")]
    assert len(sent) == 11
    assert [declared[message["actor_name"]][0] for message in sent] == [message["queue_name"] for message in sent]


def test_an_hour_of_pulses_leaves_one_message_of_each_actor_where_nobody_takes_them(
    valkey: Valkey, tmp_path: Path
) -> None:
    env = {"PATH": "/usr/bin:/bin", "MODELMILL_DATA_DIR": str(tmp_path), "MODELMILL_REDIS_URL": valkey.url(0)}
    subprocess.run([sys.executable, "-c", PULSES], cwd=REPOSITORY, env=env, check=True, capture_output=True)
    queues = make_broker(valkey.url(1)).client
    actors = {
        queue: [json.loads(text)["actor_name"] for text in queues.hvals(f"queue:{queue}.msgs")]
        for queue in (Queue.JOINT, Queue.NODES, Queue.PERIODIC, Queue.VIDEO)
    }
    assert all(names for names in actors.values())
    assert {queue: len(set(names)) for queue, names in actors.items()} == {
        queue: queues.llen(f"queue:{queue}") for queue in actors
    }
    queues.connection_pool.disconnect()


def a_task() -> Task:
    return Task(
        "a-task",
        "alice",
        Workload.SCRIPT,
        "",
        Demand(1, 0, 1),
        seq=1,
        state=State.SUCCEEDED,
        version=1,
        created_at="",
        updated_at="",
        waited_since="",
    )


def test_what_is_sent_for_later_goes_to_queues_that_are_known_for_it() -> None:
    """A worker of `modelmill up` looks for delayed messages on these alone."""
    late = {
        ast.unparse(call.func.value)
        for path in (REPOSITORY / "actors").glob("*.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr == "send_with_options"
        and any(keyword.arg == "delay" for keyword in call.keywords)
    }
    partial = {"job_ended"}  # by functools.partial
    assert {Message(name).queue for name in late | partial} == DELAYED


def test_messages_are_sent_from_these_modules_only() -> None:
    """So that the test above has seen them all."""
    senders = {str(path.relative_to(REPOSITORY)) for path in (REPOSITORY / "app").rglob("*.py") if _sends(path)}
    modules = (
        "conversion/service/dispatch",
        "bootstrap/container",
        "bootstrap/events",
        "bootstrap/exchange",
        "bootstrap/joint_inference",
        "bootstrap/video",
        "kit/queue/waker",
    )
    assert senders == {f"app/{module}.py" for module in modules}


SENDERS = ("broker", "waker")


def _sends(path: Path) -> bool:
    text = path.read_text()
    if "post(" not in text and ".send(" not in text:  # most modules, and to parse them all takes long
        return False
    calls = [node.func for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    return any(
        (isinstance(call, ast.Name) and call.id == "post")
        or (isinstance(call, ast.Attribute) and call.attr == "send" and ast.unparse(call.value).endswith(SENDERS))
        for call in calls
    )


def test_every_actor_states_its_queue_and_that_it_is_not_retried(declared: dict[str, tuple[str, int]]) -> None:
    assert declared == {
        "run_onnx": ("onnx", 0),
        "run_bie": ("bie", 0),
        "run_nef": ("nef", 0),
        "done": ("done", 0),
        "sweep": ("periodic", 0),
        "expire": ("periodic", 0),
        "apply_door": ("periodic", 0),
        "clear_homes": ("periodic", 0),
        "schedule": ("training", 0),
        "convert_results": ("training_results", 0),
        "look_for_results": ("periodic", 0),
        "reconcile": ("joint", 0),
        "upstream": ("joint", 0),
        "measure_drift": ("joint", 0),
        "forget_gone": ("joint", 0),
        "watch_nodes": ("nodes", 0),
        "calibrate": ("joint_calibration", 0),
        "reconcile_video": ("video", 0),
        "forget_old_video": ("video", 0),
        "keep_event_clips": ("video", 0),
        "order_sinks": ("video", 0),
        "forget_old_rows": ("video", 0),
        "plan_video": ("video_plans", 0),
        "transfer": ("exchange", 0),
        "job_ended": ("notifications", 0),
        "deliver": ("notifications", 0),
        "forget_deliveries": ("notifications", 0),
        "submit_sweeps": ("sweeps", 0),
        "deliver_rows": ("notifications", 0),
        "sweep_cache": ("periodic", 0),
    }
    assert declared == {message.value: (message.queue.value, 0) for message in Message}
    calls = [
        (path.stem, {keyword.arg for keyword in call.keywords})
        for path in (REPOSITORY / "actors").glob("*.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "dramatiq.actor"
    ]
    assert [name for name, _ in calls] == ["process"]  # all the others are declared by it
    assert {"actor_name", "queue_name", "max_retries"} <= calls[0][1]
