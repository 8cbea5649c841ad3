"""Sweeps of tasks: by the API, and as a browser without scripts reads them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import httpx
import pytest

from app.kit.clock import now
from app.training import store
from tests.harness.deployment import Deployment
from tests.harness.page_text import polled, text_of
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
    assert "rates Every combination 3 3" in text_of(web.get("/ui/task-sweeps"))
    (listed,) = [one for one in web.get(SWEEPS).json()["sweeps"] if one["sweep_id"] == sweep["sweep_id"]]
    assert (listed["search"], listed["size"], listed["concurrency"]) == ("grid", 3, None)
    assert "lr=1e-05 Running 1e-05 0.25 best 7" in text_of(page)
    assert page.text.count("<polyline") == 2 and "metrics?also=" in page.text
    (again,) = polled(page)
    assert web.get(again).status_code == 204
    first = told["tasks"][0]["task_id"]
    assert f"/ui/task-sweeps/{sweep['sweep_id']}" in web.get(f"/ui/tasks/{first}").text


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("", "1e-06"),
        ("?sort=best", "1e-05"),
        ("?sort=overrides.optim.lr&order=desc", "0.0001"),
        ("?sort=state", "0.0001"),
    ],
)
def test_its_table_is_sorted_by_any_column(
    web: httpx.Client, deployment: Deployment, sweep: dict[str, object], query: str, first: str
) -> None:
    learns(deployment, sweep, 0.5, 0.25)
    page = web.get(f"/ui/task-sweeps/{sweep['sweep_id']}{query}")
    assert re.findall(r"lr=(\S+)</a></td>", page.text)[0] in (first, f"{float(first):g}")
    assert web.get(polled(page)[0]).status_code == 204


FORM = {
    "action": "submit",
    "workload": "sft",
    "name": "by form",
    "model_id": "Qwen/Qwen2.5-0.5B-Instruct",
    "train_file": "/private/users/erin/datasets/train.parquet",
    "n_gpus_per_node": "1",
    "vary": "overrides.optim.lr: {low: 1e-6, high: 1e-4, log: true}\ntotal_epochs: [1, 2]",
    "search": "random",
    "most": "5",
    "concurrency": "2",
    "metric": "val/loss",
    "early_stop.min_steps": "10",
}


def test_the_form_of_a_task_starts_a_sweep(web: httpx.Client, files: Path) -> None:
    preview = web.post("/ui/tasks/new", data={**FORM, "action": "preview"})
    assert "A sweep of 5 tasks. 2 at once." in text_of(preview)
    begun = web.post("/ui/tasks/new?once=0123456789abcdef", data=FORM)
    page = begun.headers["location"]
    assert web.post("/ui/tasks/new?once=0123456789abcdef", data=FORM).headers["location"] == page
    sweep = web.get(f"{SWEEPS}/{page.rpartition('/')[2]}").json()
    assert (sweep["size"], sweep["concurrency"], len(sweep["tasks"]), sweep["metric"]) == (5, 2, 2, "val/loss")
    again = web.get(f"/ui/tasks/new?sweep={sweep['sweep_id']}")
    assert 'name="early_stop.min_steps" value="10"' in again.text and "A sweep of 5 tasks." in text_of(again)
    web.post(f"{SWEEPS}/{sweep['sweep_id']}/cancel")


def test_what_is_wrong_with_a_sweep_is_said_at_its_field(web: httpx.Client, files: Path) -> None:
    refused = web.post("/ui/tasks/new", data={**FORM, "metric": ""})
    assert refused.status_code == 422 and 'id="problem-metric"' in refused.text
    web.post("/ui/tasks/new", data={**FORM, "vary": "total_epochs: ["})


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


def test_it_is_submitted_again_with_other_values_and_the_differences_are_told(
    web: httpx.Client, sweep: dict[str, object]
) -> None:
    changes = {"vary.overrides.optim.lr": [1e-3], "name": "again", "concurrency": 1, "n_gpus_per_node": 2}
    answer = web.post(f"{SWEEPS}/{sweep['sweep_id']}/again", json={"set": changes})
    assert answer.status_code == 201, answer.text
    again = answer.json()
    assert (again["name"], len(again["tasks"]), again["sweep_id"] != sweep["sweep_id"]) == ("again", 1, True)
    assert again["changes"] == [
        {"field": "n_gpus_per_node", "before": 1, "after": 2},
        {"field": "vary.overrides.optim.lr", "before": [1e-6, 1e-5, 1e-4], "after": [1e-3]},
        {"field": "concurrency", "before": None, "after": 1},
    ]
    refused = web.post(f"{SWEEPS}/{sweep['sweep_id']}/again", json={"set": {"vary": None}}, headers=JSON)
    assert refused.status_code == 422 and refused.json()["error"]["detail"]["problems"][0]["at"] == "vary"


def test_the_form_tells_how_a_sweep_differs_from_the_one_that_it_was_made_of(
    web: httpx.Client, sweep: dict[str, object]
) -> None:
    page = web.get(f"/ui/tasks/new?sweep={sweep['sweep_id']}&mode=yaml")
    assert "Nothing so far." in text_of(page.text) and f'href="/ui/task-sweeps/{sweep["sweep_id"]}"' in page.text
    fields = {"mode": "yaml", "origin_sweep": str(sweep["sweep_id"])}
    text = BODY.replace("1.0e-6, ", "").replace("n_gpus_per_node: 1", "n_gpus_per_node: 2")
    preview = text_of(web.post("/ui/tasks/new/preview", data={**fields, "text": text}).text)
    assert "vary.overrides.optim.lr [1e-06, 1e-05, 0.0001] → [1e-05, 0.0001]" in preview
    assert "n_gpus_per_node 1 → 2" in preview
    alone = text[: text.index("vary:")]
    assert "→ –" in text_of(web.post("/ui/tasks/new/preview", data={**fields, "text": alone}).text)
