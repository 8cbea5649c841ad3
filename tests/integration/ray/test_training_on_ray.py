"""The whole product in front of a real Ray cluster: two nodes of four GPUs each, and a stand-in for verl."""

from __future__ import annotations

import hashlib
import math
import os
import re
import sys
from collections.abc import Iterator

import pytest

from app.training.gateway import RayStatus, Submission
from app.training.gateway.ray_gateway import RayGateway
from tests.harness.ray_cluster import RayCluster, running_cluster
from tests.harness.training.deployment import ENDED, TASKS, Trainer
from tests.harness.training.ray_jobs import ON_WORKER, new_id
from tests.harness.until import until
from tests.harness.users import OURS

pytestmark = [pytest.mark.ray, pytest.mark.slow]
READER = """
import hashlib, os, pathlib
print("sha256", hashlib.sha256(pathlib.Path(os.environ["MODELMILL_TRAIN_FILE"]).read_bytes()).hexdigest())
"""
LEARNER = """
import json, os, pathlib, sys
row = {"step": 1, "loss": float(sys.argv[1])}
pathlib.Path(os.environ["MODELMILL_METRICS_FILE"]).write_text(json.dumps(row) + chr(10))
"""


SEARCHED = """
import json, math, os, pathlib, sys, time
loss = abs(math.log10(float(sys.argv[1].removeprefix("--lr="))) + 3)
best = pathlib.Path(__file__).with_name("best.txt")
is_behind = best.exists() and loss > float(best.read_text())
with open(os.environ["MODELMILL_METRICS_FILE"], "a") as file:
    for step in (1, 2):
        print(json.dumps({"step": step, "loss": loss}), file=file)
if is_behind:
    time.sleep(600)
best.write_text(repr(loss))
"""


@pytest.fixture(scope="module")
def gateway(ray_cluster: RayCluster) -> Iterator[RayGateway]:
    made = RayGateway(ray_cluster.options())
    yield made
    made.close()


@pytest.fixture(autouse=True)
def leave_nothing(request: pytest.FixtureRequest) -> Iterator[None]:
    """The next test finds the cluster free."""
    yield
    if "trainer" not in request.fixturenames:
        return
    trainer: Trainer = request.getfixturevalue("trainer")
    trainer.cancel(*trainer.unended())


def free_gpus(gateway: RayGateway) -> float:
    return sum(node.free_gpus for node in gateway.nodes() if node.may_train)


# --- from the submission to the end -----------------------------------------------------------------
def test_a_task_runs_on_a_worker_and_is_followed_to_its_end(trainer: Trainer, gateway: RayGateway) -> None:
    task_id = trainer.submit(gpus=2, nodes=2)
    assert re.fullmatch(r"mvp2-local-ppo-\d{8}-\d{6}-[0-9a-f]{4}", task_id)
    task = trainer.reaches(task_id, *ENDED)
    assert (task["state"], task["error_summary"]) == ("SUCCEEDED", "")
    [attempt] = task["attempts"]
    assert attempt["ray_submission_id"] == f"{task_id}--a01"
    assert (attempt["ray_status"], attempt["exit_code"], attempt["failure_kind"]) == ("SUCCEEDED", 0, None)
    assert attempt["start_time"] <= attempt["end_time"]
    assert attempt["driver_node_id"] in {node.node_id for node in gateway.nodes() if node.may_train}
    assert any("training on 2 x 2 GPUs" in line for line in trainer.logs(task_id))
    folder = trainer.deployment.folder / "data/homes/users/local/jobs" / attempt["ray_submission_id"]
    assert {"jobspec.yaml", "submit.json", "driver.log"} <= {path.name for path in folder.iterdir()}
    assert (folder / "jobspec.yaml").read_bytes() == trainer.http.get(f"{TASKS}/{task_id}/spec").content
    assert "PYTHONPATH" not in (folder / "submit.json").read_text()
    steps = [
        event["payload"]["to"]
        for event in trainer.http.get(f"{TASKS}/{task_id}/events").json()["events"]
        if event["event_type"] == "STATE"
    ]
    assert steps == ["SUBMITTING", "SUBMITTED", "RUNNING", "SUCCEEDED"]


@pytest.mark.exhaustive  # the page of a sweep shows it, too
def test_a_sweep_finds_the_best_of_its_tasks(trainer: Trainer) -> None:
    program = trainer.add_program("swept", LEARNER)
    body = {"workload": "script", "code_path": program, "name": "rates", "vary": {"args": [["3"], ["1"], ["2"]]}}
    answer = trainer.http.post("/api/v2/task-sweeps", json=body)
    assert answer.status_code == 201, answer.text
    for task in answer.json()["tasks"]:
        assert trainer.reaches(task["task_id"], *ENDED)["state"] == "SUCCEEDED"
    sweep = trainer.http.get(answer.headers["location"]).json()
    assert [(task["values"], task["best"]["value"], task["is_best"]) for task in sweep["tasks"]] == [
        ({"args": ["3"]}, 3, False),
        ({"args": ["1"]}, 1, True),
        ({"args": ["2"]}, 2, False),
    ]


@pytest.mark.exhaustive
def test_a_search_stops_what_falls_behind_and_survives_the_death_of_the_scheduler(trainer: Trainer) -> None:
    pytest.importorskip("optuna", reason="needs the extra train")
    body = {
        "workload": "script",
        "code_path": trainer.add_program("searched", SEARCHED),
        "cpus": 1,
        "vary": {"args.lr": {"low": 1e-6, "high": 1.0, "log": True}},
        "search": "optuna",
        "most": 5,
        "concurrency": 1,
        "metric": "loss",
        "early_stop": {"min_steps": 2},
    }
    place = trainer.http.post("/api/v2/task-sweeps", json=body).headers["location"]
    read = lambda: trainer.http.get(place).json()  # noqa: E731
    until(read, lambda sweep: len(sweep["tasks"]) == 2)
    trainer.kill_scheduler()
    trainer.schedule()
    for count in (3, 4, 5):
        until(read, lambda sweep, count=count: len(sweep["tasks"]) == count)
    sweep = until(read, lambda sweep: not sweep["is_open"])
    tasks = sweep["tasks"]
    assert len({task["values"]["args.lr"] for task in tasks}) == 5 and not sweep["remark"]
    # the first has nobody to be compared with; one that is worse than all before waits to be stopped
    losses = [abs(math.log10(task["values"]["args.lr"]) + 3) for task in tasks]
    is_behind = [loss > min(losses[: max(place, 1)]) for place, loss in enumerate(losses)]
    assert [task["is_stopped_early"] for task in tasks] == is_behind and any(is_behind)
    assert [task["state"] for task in tasks] == ["CANCELED" if behind else "SUCCEEDED" for behind in is_behind]
    assert [task["best"]["value"] for task in tasks] == pytest.approx(losses, abs=1e-6)


@pytest.mark.exhaustive
def test_a_program_that_hangs_gives_its_place_back(trainer: Trainer) -> None:
    program = trainer.add_program("hangs", "import time\nprint('begins')\ntime.sleep(3600)\n")
    task_id = trainer.run(program, max_idle_s=60)
    ended = trainer.reaches(task_id, *ENDED)
    assert (ended["state"], ended["failure_kind"]) == ("FAILED", "IDLE_LIMIT")
    assert trainer.logs(task_id)[-1] == "begins"


@pytest.mark.exhaustive  # the demonstration writes into and runs from the same mount, and units name the files' paths
def test_a_job_reads_what_its_user_uploaded(trainer: Trainer) -> None:
    data = os.urandom(200_000)
    path = "/private/users/local/datasets/mine.bin"
    assert trainer.http.put("/api/v2/files/content", params={"path": path}, content=data).is_success
    code_path = trainer.add_program("reader", READER)
    task_id = trainer.run(code_path, train_file=path)
    assert trainer.reaches(task_id, *ENDED)["state"] == "SUCCEEDED"
    assert f"sha256 {hashlib.sha256(data).hexdigest()}" in trainer.logs(task_id)


def test_the_demonstration_trains_by_a_button_and_shows_its_curve(trainer: Trainer) -> None:
    begun = trainer.http.post("/ui/tasks/demonstration?once=0123456789abcdef", headers=OURS)
    assert begun.status_code == 303, begun.text
    path = begun.headers["location"]
    task = trainer.reaches(path.split("/")[3], *ENDED)
    assert (task["state"], task["name"]) == ("SUCCEEDED", "learning curve"), task["error_summary"]
    page = trainer.http.get(path).text
    assert 'data-title="loss"' in page and 'data-title="accuracy"' in page


@pytest.mark.exhaustive  # each kind is told from its log by itself, too
@pytest.mark.parametrize(
    ("how", "kind"),
    [("user", "USER_ERROR"), ("runtime", "RUNTIME_ERROR"), ("oom", "OUT_OF_MEMORY")],
)
def test_a_failure_of_the_program_is_named_and_not_tried_again(trainer: Trainer, how: str, kind: str) -> None:
    task = trainer.reaches(trainer.submit(fail=how, hold_s=0), *ENDED)
    assert (task["state"], task["failure_kind"]) == ("FAILED", kind)
    assert task["error_summary"]
    assert [attempt["failure_kind"] for attempt in task["attempts"]] == [kind]


# --- the line ---------------------------------------------------------------------------------------
@pytest.mark.exhaustive
def test_a_busy_cluster_lets_tasks_wait_in_their_order_and_what_is_cancelled_makes_room_for_them(
    trainer: Trainer, gateway: RayGateway
) -> None:
    holder = trainer.submit(gpus=1, hold_s=300)
    until(lambda: free_gpus(gateway), lambda free: free == 7)
    big, small = trainer.submit(gpus=4, nodes=2), trainer.submit(gpus=1, workload="sft")
    waiting = trainer.reaches(big, "PENDING_RESOURCES")
    assert waiting["waiting_reason"].startswith("waiting: 7 GPUs free")
    assert (waiting["position"], waiting["attempts"]) == (1, [])
    trainer.when(small, lambda task: task["state"] == "PENDING_RESOURCES" and task["position"] == 2)
    unwanted = trainer.submit(gpus=1)
    answer = trainer.http.post(f"{TASKS}/{unwanted}/cancel")
    assert (answer.status_code, answer.json()["state"]) == (202, "CANCELED")
    assert [gateway.job(f"{task_id}--a01") for task_id in (big, small, unwanted)] == [None] * 3

    assert trainer.http.post(f"{TASKS}/{holder}/cancel").json()["state"] in ("CANCELING", "CANCELED")
    assert trainer.reaches(holder, *ENDED)["state"] == "CANCELED"
    job = gateway.job(f"{holder}--a01")
    assert job is not None and job.status is RayStatus.STOPPED

    done = trainer.reaches(small, *ENDED)
    first = trainer.reaches(big, *ENDED)
    assert (first["state"], done["state"]) == ("SUCCEEDED", "SUCCEEDED")
    assert first["attempts"][0]["start_time"] <= done["attempts"][0]["start_time"]
    until(lambda: free_gpus(gateway), lambda free: free == 8)
    assert gateway.job(f"{unwanted}--a01") is None


@pytest.mark.exhaustive  # those of the gangs show it
def test_whole_slots_are_needed_and_not_just_enough_gpus_in_all(trainer: Trainer, gateway: RayGateway) -> None:
    apart = trainer.submit(gpus=8, nodes=1, backfill=True)
    together = trainer.submit(gpus=4, nodes=2, workload="grpo")
    assert trainer.reaches(together, *ENDED)["state"] == "SUCCEEDED"
    assert trainer.task(apart)["state"] == "PENDING_RESOURCES"
    assert gateway.job(f"{apart}--a01") is None


@pytest.mark.exhaustive
def test_tasks_run_together_as_long_as_there_is_room(trainer: Trainer, gateway: RayGateway) -> None:
    tasks = [trainer.submit(gpus=2, hold_s=300) for _ in range(5)]
    for task_id in tasks[:4]:
        trainer.reaches(task_id, "RUNNING")
    assert trainer.reaches(tasks[4], "PENDING_RESOURCES")["attempts"] == []
    until(lambda: free_gpus(gateway), lambda free: free == 0)
    trainer.cancel(tasks[0])
    trainer.reaches(tasks[4], "RUNNING")
    assert {trainer.task(task_id)["state"] for task_id in tasks[1:4]} == {"RUNNING"}


@pytest.mark.exhaustive
@pytest.mark.parametrize("noise", [0, 40])
def test_a_lost_race_for_gpus_is_tried_again(trainer: Trainer, gateway: RayGateway, noise: int) -> None:
    """Somebody takes GPUs between our look and verl's. noise: lines that push the error out of the last ones."""
    task_id = trainer.submit(gpus=4, nodes=2, delay_s=4, noise=noise)
    trainer.reaches(task_id, "RUNNING", "SUBMITTED")
    thief = Submission(new_id(), f"{sys.executable} -c 'import time; time.sleep(600)'", gpus=1, resources=ON_WORKER)
    gateway.submit(thief)
    task = trainer.when(task_id, lambda task: task["attempts"][0]["failure_kind"] is not None)
    assert task["attempts"][0]["failure_kind"] == "INSUFFICIENT_RESOURCES"
    assert trainer.task(task_id)["state"] == "PENDING_RESOURCES"
    gateway.stop(thief.submission_id)
    task = trainer.reaches(task_id, *ENDED)
    assert (task["state"], task["attempts"][-1]["ray_submission_id"]) == ("SUCCEEDED", f"{task_id}--a02")


# --- faults of ours ---------------------------------------------------------------------------------
@pytest.mark.exhaustive  # whenever it dies: tests/property
def test_a_killed_scheduler_takes_its_running_task_up_again(trainer: Trainer) -> None:
    """One GPU is left on each node while it runs: the others wait."""
    code_path = trainer.add_program("short", "")
    task_id = trainer.submit(gpus=3, nodes=2, hold_s=4)
    trainer.reaches(task_id, "RUNNING")
    waiting = [trainer.run(code_path, n_gpus_per_node=4) for _ in range(2)]
    trainer.kill_scheduler()
    trainer.schedule()
    for each in [task_id, *waiting]:
        task = trainer.reaches(each, *ENDED)
        assert (task["state"], len(task["attempts"])) == ("SUCCEEDED", 1)


@pytest.mark.exhaustive
def test_a_scheduler_that_is_killed_again_and_again_submits_each_task_once(trainer: Trainer) -> None:
    tasks = [trainer.submit(gpus=2, hold_s=1) for _ in range(6)]
    for pause in range(5):
        until(lambda: trainer.task(tasks[pause])["attempts"], bool)  # noqa: B023  # called in this round
        trainer.kill_scheduler()
        trainer.schedule()
    for task_id in tasks:
        task = trainer.reaches(task_id, *ENDED)
        assert (task["state"], [a["attempt_no"] for a in task["attempts"]]) == ("SUCCEEDED", [1])


# --- faults of Ray: a cluster of their own, for these break it --------------------------------------
@pytest.fixture(scope="module")
def fragile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Trainer, RayCluster]]:
    with running_cluster(((2, 8),)) as cluster:
        made = Trainer(tmp_path_factory.mktemp("fragile"), cluster)
        try:
            made.start()
            yield made, cluster
        finally:
            made.close()


@pytest.mark.exhaustive
def test_while_ray_is_away_tasks_are_taken_and_wait_and_run_when_it_is_back(
    fragile: tuple[Trainer, RayCluster],
) -> None:
    trainer, cluster = fragile
    running = trainer.submit(gpus=1, hold_s=10)
    trainer.reaches(running, "RUNNING")
    with cluster.stalled_head():
        waiting = trainer.submit(gpus=1)
        until(lambda: trainer.http.get("/api/v2/cluster").json(), lambda view: view["unreachable_since"] is not None)
        task = trainer.when(waiting, lambda task: task["waiting"] and task["waiting"]["code"] == "RAY")
        assert (task["state"] in ("QUEUED", "PENDING_RESOURCES"), task["attempts"]) == (True, [])
        assert trainer.task(running)["state"] == "RUNNING"
    for task_id in (running, waiting):
        assert trainer.reaches(task_id, *ENDED)["state"] == "SUCCEEDED"
    until(lambda: trainer.http.get("/api/v2/cluster").json(), lambda view: view["unreachable_since"] is None)


@pytest.mark.exhaustive
def test_a_node_that_dies_leaves_the_log_and_the_task_begins_anew(fragile: tuple[Trainer, RayCluster]) -> None:
    trainer, cluster = fragile
    task_id = trainer.submit(gpus=1, hold_s=15)
    trainer.when(task_id, lambda task: task["attempts"] and task["attempts"][0]["log_bytes"])
    until(lambda: trainer.logs(task_id), lambda lines: any("training on" in line for line in lines))
    cluster.kill_worker()
    cluster.start_worker(2, 8)
    task = trainer.when(task_id, lambda task: len(task["attempts"]) == 2)
    assert task["attempts"][0]["failure_kind"] == "INFRA_ERROR"
    kept = trainer.http.get(f"{TASKS}/{task_id}/logs", params={"attempt": 1, "tail": 200})
    assert "training on 1 x 1 GPUs" in kept.text
    assert trainer.reaches(task_id, *ENDED)["state"] == "SUCCEEDED"


@pytest.mark.exhaustive
def test_a_head_that_lost_its_memory_loses_the_job_and_not_the_task(fragile: tuple[Trainer, RayCluster]) -> None:
    trainer, cluster = fragile
    given_up, begun_anew = trainer.submit(hold_s=300, restart_on_infra=0), trainer.submit(hold_s=2, delay_s=8)
    for task_id in (given_up, begun_anew):
        trainer.reaches(task_id, "RUNNING")
    cluster.restart()
    task = trainer.reaches(given_up, *ENDED)
    assert (task["state"], task["failure_kind"]) == ("FAILED", "LOST")
    task = trainer.reaches(begun_anew, *ENDED)
    assert [attempt["failure_kind"] for attempt in task["attempts"]] == ["LOST", None]
    assert task["state"] == "SUCCEEDED"
