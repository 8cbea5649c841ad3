"""Sweeps of tasks: by the API, and as a browser without scripts reads them."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from app.kit.clock import now
from app.training import store
from tests.harness.deployment import Deployment
from tests.harness.training.page_text import polled, text_of
from tests.harness.training.tasks import TaskBuilder, database_of

SWEEPS = "/api/v2/task-sweeps"
BODY = """\
workload: sft
name: rates
model_id: Qwen/Qwen2.5-0.5B-Instruct
train_file: /private/users/erin/datasets/train.parquet
n_gpus_per_node: 1
vary:
  overrides.optim.lr: [1.0e-6, 1.0e-5, 1.0e-4]
"""
JSON = {"Accept": "application/json"}


@pytest.fixture
def sweep(web: httpx.Client, files: Path) -> dict[str, object]:
    answer = web.post(SWEEPS, content=BODY)
    assert answer.status_code == 201, answer.text
    told: dict[str, object] = answer.json()
    assert answer.headers["location"] == f"{SWEEPS}/{told['sweep_id']}"
    return told


def learns(deployment: Deployment, sweep: dict[str, object], *losses: float) -> None:
    """What its tasks have told, one after the other."""
    with database_of(deployment) as database:
        for task, loss in zip(sweep["tasks"], losses, strict=False):  # type: ignore[call-overload]
            with database.read() as conn:
                stored = store.get_task(conn, task["task_id"])
            assert stored is not None
            row = json.dumps({"step": 7, "data": {"val/loss": loss, "train/lr": 1}})
            TaskBuilder(database, deployment, stored, now()).run().leave("metrics.jsonl", f"{row}\n".encode())


def test_its_tasks_are_compared_by_their_figure(
    web: httpx.Client, deployment: Deployment, sweep: dict[str, object]
) -> None:
    assert (sweep["fields"], sweep["metric"]) == (["overrides.optim.lr"], "")
    learns(deployment, sweep, 0.5, 0.25)
    told = web.get(f"{SWEEPS}/{sweep['sweep_id']}").json()
    assert told["metric"] == "val/loss"
    assert [(task["values"]["overrides.optim.lr"], task["best"], task["is_best"]) for task in told["tasks"]] == [
        (1e-6, {"step": 7, "value": 0.5}, False),
        (1e-5, {"step": 7, "value": 0.25}, True),
        (1e-4, None, False),
    ]
    page = web.get(f"/ui/task-sweeps/{sweep['sweep_id']}")
    assert "rates · lr=1e-05 Running 1e-05 0.25 best 7" in text_of(page)
    assert page.text.count("<polyline") == 2 and "metrics?also=" in page.text
    (again,) = polled(page)
    assert web.get(again).status_code == 204
    first = told["tasks"][0]["task_id"]
    assert f"/ui/task-sweeps/{sweep['sweep_id']}" in web.get(f"/ui/tasks/{first}").text


def test_what_is_left_of_it_is_cancelled_at_once(
    web: httpx.Client, deployment: Deployment, sweep: dict[str, object]
) -> None:
    ended = web.post(f"/ui/task-sweeps/{sweep['sweep_id']}/cancel", follow_redirects=True)
    assert text_of(ended).count("Cancelled") >= 3 and polled(ended) == []
    assert web.post(f"{SWEEPS}/{sweep['sweep_id']}/cancel").status_code == 202


def test_all_of_its_tasks_are_put_in_line_or_none(web: httpx.Client, files: Path) -> None:
    before = len(web.get("/api/v2/tasks?q=rates&limit=200").json()["tasks"])
    wrong = f"{BODY}  train_file: [/private/users/erin/datasets/none]\n"
    refused = web.post(SWEEPS, content=wrong, headers=JSON)
    assert refused.status_code == 422 and "train_file" in refused.json()["error"]["message"]
    assert len(web.get("/api/v2/tasks?q=rates&limit=200").json()["tasks"]) == before


def test_another_users_sweep_is_as_one_that_is_not_there(finn: httpx.Client, sweep: dict[str, object]) -> None:
    answers = [finn.get(f"{SWEEPS}/{sweep_id}", headers=JSON) for sweep_id in (sweep["sweep_id"], "none")]
    assert [answer.status_code for answer in answers] == [404, 404]
    assert finn.post(f"{SWEEPS}/{sweep['sweep_id']}/cancel").status_code == 404
    assert finn.get(f"/ui/task-sweeps/{sweep['sweep_id']}").status_code == 404
