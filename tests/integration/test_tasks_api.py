"""The API of training tasks on the real web: every answer and every refusal, whatever becomes of the cluster."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis

from app.kit.clock import to_text
from app.kit.web.operations import Operation
from app.settings import Settings
from app.training.capability import TRAINING
from app.training.model import FailureKind, Node, State, WaitingCode, WaitingReason
from app.training.service import ClusterPicture, ClusterView, Holder
from tests.harness.api import code_of, pngs, small_model, zipped
from tests.harness.deployment import Deployment
from tests.harness.described import assert_answers_as_described, trials
from tests.harness.training.scheduler import AT, RAY, SCRIPT, TASKS, Scheduler, make_common, scheduler_of
from tests.harness.users import Person, make_users, person, within

ID = re.compile(r"mvp2-alice-(ppo|grpo|sft|script)-\d{8}-\d{6}-[0-9a-f]{4}")
RL = """\
# what a person wrote, with its comments
workload: {}
model_path: /private/common/models/small   # spaces behind
train_file: /private/common/datasets/train.parquet
val_file: /private/common/datasets/val.parquet
nnodes: 2
n_gpus_per_node: 4
name: 訓練 "α"
"""
SFT = RL.format("sft")


@pytest.fixture(scope="module")
def deployment(shared: Deployment) -> Deployment:
    """Where accounts are demanded, with a cluster of which nothing answers. Alice and Bob have homes."""
    for name in ("alice", "bob"):
        with person(shared, name).api() as api:
            assert api.http.get("/api/v2/files").status_code == 200  # which makes the home
    return shared


@pytest.fixture
def web(alice: Person) -> Iterator[httpx.Client]:
    with alice.api() as api:
        yield api.http


@pytest.fixture
def other(deployment: Deployment) -> Iterator[httpx.Client]:
    with person(deployment, "bob").api() as api:
        yield api.http


@pytest.fixture(scope="module")
def scheduler(deployment: Deployment) -> Iterator[Scheduler]:
    with scheduler_of(deployment) as made:
        yield made


@pytest.fixture(scope="module")
def described(deployment: Deployment) -> Any:
    return schemathesis.openapi.from_url(f"{deployment.url}/openapi.json")


def submit(web: httpx.Client, spec: str | bytes = SCRIPT, **headers: str) -> httpx.Response:
    return web.post(TASKS, content=spec, headers=headers)


def new(web: httpx.Client, spec: str = SCRIPT) -> str:
    answer = submit(web, spec)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["task_id"])


# --- submitting -----------------------------------------------------------------------------------
@pytest.mark.parametrize("workload", ["ppo", "grpo", "sft", "script"])
def test_each_workload_gets_a_readable_id_and_is_kept_byte_for_byte(web: httpx.Client, workload: str) -> None:
    spec = SCRIPT + "# 註解\n" if workload == "script" else RL.format(workload).replace("\n", "\r\n")
    answer = submit(web, spec)
    assert answer.status_code == 201, answer.text
    task = answer.json()
    assert ID.fullmatch(task["task_id"]) and answer.headers["location"] == f"{TASKS}/{task['task_id']}"
    assert (task["workload"], task["state"], task["jobspec"]) == (workload, "QUEUED", spec)
    kept = web.get(f"{TASKS}/{task['task_id']}/spec")
    assert kept.content == spec.encode() and kept.headers["content-type"] == "application/yaml"


def test_a_task_may_be_json(web: httpx.Client) -> None:
    spec = '{"workload": "script",\n "code_path": "/private/common/code/digits", "name": "\\u8a13"}'
    answer = submit(web, spec, **{"Content-Type": "application/json"})
    assert answer.status_code == 201 and answer.json()["name"] == "訓"
    assert web.get(f"{TASKS}/{answer.json()['task_id']}/spec").text == spec


def test_a_task_has_the_fields_of_the_requirement(web: httpx.Client, scheduler: Scheduler) -> None:
    task_id = new(web, SFT)
    assert web.get(f"{TASKS}/{task_id}").json()["latest_attempt"] is None
    scheduler.attempt(
        task_id,
        ray_status="FAILED",
        exit_code=3,
        started_at="s",
        ended_at="2026-11-01T13:00:00.000Z",
        failure_kind=FailureKind.RUNTIME_ERROR,
        message="why",
    )
    task = web.get(f"{TASKS}/{task_id}").json()
    assert task.keys() >= {
        "task_id",
        "workload",
        "state",
        "jobspec",
        "created_at",
        "updated_at",
        "latest_attempt",
        "attempts",
        "error_summary",
    }
    attempt = task["attempts"][0]
    assert attempt == task["latest_attempt"]
    assert attempt["ray_submission_id"] == f"{task_id}--a01"
    expected = {
        "attempt_no": 1,
        "ray_status": "FAILED",
        "failure_kind": "RUNTIME_ERROR",
        "exit_code": 3,
        "message": "why",
        "start_time": "s",
        "end_time": "2026-11-01T13:00:00.000Z",
    }
    assert {name: attempt[name] for name in expected} == expected
    assert task["demand"] == {"nodes": 2, "gpus_per_node": 4, "gpus": 8, "cpus": 80.0, "resources": {}}
    for link in ("task", "logs", "events", "spec"):
        assert web.get(task["links"][link]).status_code == (404 if link == "logs" else 200)


def _converting(options: str) -> bytes:
    return f"{SCRIPT}convert: {{images: a.zip, options: {options}}}\n".encode()


BAD = [
    (b"", 400, "TASK_SPEC_UNREADABLE", None),
    (b"\xff\xfe", 400, "TASK_SPEC_UNREADABLE", None),
    (b"workload: [", 400, "TASK_SPEC_UNREADABLE", None),
    (b"{workload: sft}", 400, "TASK_SPEC_UNREADABLE", None),
    (b"a: &x [1]\nb: *x\n", 400, "TASK_SPEC_UNREADABLE", None),
    (b"!!python/object/apply:os.system [id]", 400, "TASK_SPEC_UNREADABLE", None),
    (b"just a text", 400, "TASK_SPEC_UNREADABLE", None),
    (b"workload: dance\n", 422, "TASK_SPEC_INVALID", "workload"),
    (SFT.encode() + b"surprise: 1\n", 422, "TASK_SPEC_INVALID", "surprise"),
    (SFT.replace("nnodes: 2", "nnodes: 0").encode(), 422, "TASK_SPEC_INVALID", "nnodes"),
    (SFT.replace("nnodes: 2", "nnodes: many").encode(), 422, "TASK_SPEC_INVALID", "nnodes"),
    (SFT.encode() + b"overrides: {optim.lrr: 1}\n", 422, "TASK_SPEC_INVALID", "overrides"),
    (SFT.replace("/private/common/datasets/train", "/etc/passwd").encode(), 422, "PATH_REFUSED", "train_file"),
    (SFT.replace("common/datasets/train", "users/bob/datasets/t").encode(), 422, "PATH_REFUSED", "train_file"),
    (SFT.replace("datasets/val", "datasets/none").encode(), 422, "PATH_REFUSED", "val_file"),
    (SFT.replace("common/models/small", "common/../users/bob").encode(), 422, "PATH_REFUSED", "model_path"),
    (SCRIPT.replace("common/code", "users/alice/code").encode(), 422, "PATH_REFUSED", "code_path"),
    (_converting("{bogus: 1}"), 422, "TASK_SPEC_INVALID", "convert.options.bogus"),
    (_converting("{toolchain: kneron, platform: '720'}"), 422, "TASK_SPEC_INVALID", "convert.options"),
    (b"# " + b"x" * 65536, 413, "TOO_LARGE", None),
]


@pytest.mark.parametrize(("body", "status", "code", "at"), BAD, ids=lambda value: str(value)[:40])
def test_what_is_wrong_with_a_task_is_said_and_nothing_is_queued(
    web: httpx.Client, body: bytes, status: int, code: str, at: str | None
) -> None:
    before = web.get(TASKS).json()["tasks"][:1]
    answer = submit(web, body)
    assert code_of(answer) == (status, code), answer.text
    error = answer.json()["error"]
    assert error["message"]
    if at is not None:
        assert at in [problem["at"] for problem in error["detail"]["problems"]]
    assert web.get(TASKS).json()["tasks"][:1] == before


# --- the same request again -------------------------------------------------------------------------
def test_the_same_key_and_body_give_the_first_task_again(web: httpx.Client) -> None:
    first, again = (submit(web, SFT, **{"Idempotency-Key": "one"}) for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["task_id"] == again.json()["task_id"]
    assert first.headers["location"] == again.headers["location"]


def test_the_same_key_with_another_body_is_refused(web: httpx.Client) -> None:
    first = submit(web, SFT, **{"Idempotency-Key": "two"}).json()["task_id"]
    answer = submit(web, SFT + "\n", **{"Idempotency-Key": "two"})
    assert code_of(answer) == (409, "IDEMPOTENCY_KEY_REUSED")
    assert first in answer.json()["error"]["message"]


@pytest.mark.parametrize("key", ["", "x" * 201, "schl\u00fcssel"])
def test_a_key_that_is_none_is_refused(web: httpx.Client, key: str) -> None:
    answer = web.post(TASKS, content=SCRIPT, headers={"Idempotency-Key": key.encode("latin-1")})  # type: ignore[dict-item]
    assert answer.status_code == 422
    assert answer.json()["error"]["detail"]["problems"][0]["at"] == "Idempotency-Key"


# --- limits, and training that is off -----------------------------------------------------------------
def test_a_user_may_have_so_many_tasks_and_then_one_must_end_first(settings: Settings) -> None:
    few = settings.model_copy(update={"ray_address": RAY, "max_unended_tasks_per_user": 2})
    make_common(few.homes)
    with within(few) as asks:
        ids = [asks.post(TASKS, content=SCRIPT).json()["task_id"] for _ in range(2)]
        refused = asks.post(TASKS, content=SCRIPT)
        assert code_of(refused) == (429, "TASKS_TOO_MANY")
        assert int(refused.headers["retry-after"]) > 0
        assert asks.post(f"{TASKS}/{ids[0]}/cancel").status_code == 202
        assert asks.post(TASKS, content=SCRIPT).status_code == 201


def test_where_nothing_is_trained_it_is_said_how_that_is_changed(settings: Settings) -> None:
    with within(settings) as asks:
        refused = asks.post(TASKS, content=SCRIPT)
        assert code_of(refused) == (503, "TRAINING_OFF")
        assert "MODELMILL_RAY_ADDRESS" in refused.json()["error"]["hint"]
        assert "retry-after" not in refused.headers
        assert asks.get(TASKS).json() == {"tasks": [], "next_cursor": None}
        cluster = asks.get("/api/v2/cluster").json()
        assert (cluster["is_on"], cluster["nodes"]) == (False, [])
        assert asks.get(f"{TASKS}/none").status_code == 404


# --- looking --------------------------------------------------------------------------------------
def test_lists_are_filtered_and_told_page_by_page(other: httpx.Client, scheduler: Scheduler) -> None:
    def ids(**query: str) -> list[str]:
        task_ids, cursor = list[str](), None
        while True:
            page = other.get(TASKS, params={**query, **({"cursor": cursor} if cursor else {})}).json()
            task_ids += [task["task_id"] for task in page["tasks"]]
            cursor = page["next_cursor"]
            if cursor is None:
                return task_ids

    before = to_text(datetime.now(UTC))
    mine = [new(other, RL.format(workload)) for workload in ("ppo", "sft", "ppo", "grpo", "ppo")][::-1]
    after = to_text(datetime.now(UTC))
    scheduler.bring(mine[0], State.SUCCEEDED)
    assert ids(since=before) == ids(since=before, limit="2") == mine
    assert ids(since=before, workload="ppo") == [mine[0], mine[2], mine[4]]
    assert ids(since=before, state="SUCCEEDED") == [mine[0]]
    assert ids(since=before, state="QUEUED", workload="ppo", q="α") == [mine[2], mine[4]]
    assert ids(since=before, q=mine[3][-4:])[-1] == mine[3]
    assert ids(since=after) == [] and not set(ids(until=before)) & set(mine)
    assert ids(q="alice") == []


@pytest.mark.parametrize(
    "query",
    [
        "state=DANCING",
        "workload=dpo",
        "since=yesterday",
        "since=2026-11-01T00:00:00",
        "until=0001-01-01T00:00:00%2B23:00",
        "limit=0",
        "limit=201",
        "cursor=x",
        "cursor=99999999999",
        "q=%00",
        "state=QUEUED&state=FAILED",
        "unknown=1",
    ],
)
def test_a_filter_that_is_none_is_refused(web: httpx.Client, query: str) -> None:
    assert web.get(f"{TASKS}?{query}").status_code == 422


def test_the_position_and_the_reason_are_told_until_it_waits_no_more(web: httpx.Client, scheduler: Scheduler) -> None:
    first, second = new(web), new(web)
    ahead = web.get(f"{TASKS}/{first}").json()["position"]
    assert web.get(f"{TASKS}/{second}").json()["position"] == ahead + 1
    scheduler.bring(second, State.PENDING_RESOURCES, waiting=WaitingReason(WaitingCode.GPUS, {"free": 0, "needed": 8}))
    web.post(f"{TASKS}/{first}/cancel")
    seen = web.get(f"{TASKS}/{second}").json()
    assert (seen["position"], seen["waiting_reason"]) == (ahead, "waiting: 0 GPUs free, 8 needed")
    assert seen["waiting"] == {"code": "GPUS", "facts": {"free": 0, "needed": 8}}
    gone = web.get(f"{TASKS}/{first}").json()
    assert (gone["position"], gone["waiting"], gone["waiting_reason"]) == (None, None, "")


def test_events_are_told_in_order_and_from_the_last_known_on(web: httpx.Client, scheduler: Scheduler) -> None:
    task_id = new(web)
    scheduler.bring(task_id, State.FAILED)
    events = web.get(f"{TASKS}/{task_id}/events").json()["events"]
    assert [(event["event_type"], event["payload"].get("to")) for event in events] == [
        ("CREATED", None),
        ("STATE", "SUBMITTING"),
        ("STATE", "SUBMITTED"),
        ("STATE", "RUNNING"),
        ("STATE", "FAILED"),
    ]
    rest = web.get(f"{TASKS}/{task_id}/events", params={"after": events[2]["event_id"]}).json()["events"]
    assert rest == events[3:]
    assert web.get(f"{TASKS}/{task_id}/events", params={"after": "-1"}).status_code == 422


# --- cancelling -----------------------------------------------------------------------------------
def test_what_has_ended_cannot_be_cancelled(web: httpx.Client, scheduler: Scheduler) -> None:
    task_id = new(web)
    scheduler.bring(task_id, State.SUCCEEDED)
    assert code_of(web.post(f"{TASKS}/{task_id}/cancel")) == (409, "TASK_FINISHED")


def test_what_waits_is_cancelled_at_once_and_again_changes_nothing(web: httpx.Client) -> None:
    task_id = new(web)
    first = web.post(f"{TASKS}/{task_id}/cancel")
    assert (first.status_code, first.json()["state"]) == (202, "CANCELED")
    again = web.post(f"{TASKS}/{task_id}/cancel")
    assert (again.status_code, again.json()) == (202, first.json())


@pytest.mark.parametrize("state", [State.SUBMITTING, State.RUNNING])
def test_what_ray_may_have_is_being_stopped(web: httpx.Client, scheduler: Scheduler, state: State) -> None:
    task_id = new(web)
    scheduler.bring(task_id, state)
    answers = [web.post(f"{TASKS}/{task_id}/cancel") for _ in range(2)]
    assert [answer.status_code for answer in answers] == [202, 202]
    assert answers[0].json() == answers[1].json() and answers[0].json()["state"] == "CANCELING"
    kinds = [event["event_type"] for event in web.get(f"{TASKS}/{task_id}/events").json()["events"]]
    assert kinds.count("CANCEL_REQUESTED") == 1


def test_what_ray_does_not_end_is_let_go_by_its_user_or_an_administrator_and_nobody_else(
    web: httpx.Client, other: httpx.Client, admin: Person, scheduler: Scheduler
) -> None:
    task_id = new(web)
    scheduler.bring(task_id, State.RUNNING)
    url = f"{TASKS}/{task_id}/release"
    assert code_of(web.post(url)) == (409, "TASK_NOT_RELEASABLE")
    told = web.post(f"{TASKS}/{task_id}/cancel").json()
    assert told["releasable_from"] > told["cancel_requested_at"] and told["links"]["release"] == url
    assert code_of(web.post(url)) == (409, "TASK_NOT_RELEASABLE")
    scheduler.attempt(task_id)
    scheduler.cancelled_at(task_id, AT)
    assert code_of(other.post(url)) == (404, "TASK_NOT_FOUND")
    with admin.api() as api:
        released = api.http.post(url)
    assert (released.status_code, released.json()["state"]) == (200, "CANCELED")
    assert "root-admin" in released.json()["error_summary"]
    again = web.post(url).json()
    assert again["may_still_run"] and again["releasable_from"] is None and again == web.get(f"{TASKS}/{task_id}").json()


def test_a_user_with_tasks_is_deleted_when_they_are_to_be_cancelled(deployment: Deployment) -> None:
    make_users(deployment, "carol-who-trains")
    with person(deployment, "carol-who-trains").api() as api, person(deployment, "root-admin").api() as admin:
        task_id = new(api.http)
        refused = admin.http.delete("/api/v2/users/carol-who-trains")
        assert refused.status_code == 409 and "training tasks (1)" in refused.json()["error"]["message"]
        assert admin.http.delete("/api/v2/users/carol-who-trains", params={"cancel": "true"}).status_code == 204
    with scheduler_of(deployment) as scheduler, scheduler.database.read() as conn:
        from app.training import store

        task = store.get_task(conn, task_id)
    assert task is not None and task.state is State.CANCELED


# --- logs, artifacts ------------------------------------------------------------------------------
def test_the_last_lines_of_each_attempt_are_told_with_what_they_are(web: httpx.Client, scheduler: Scheduler) -> None:
    task_id = new(web)
    url = f"{TASKS}/{task_id}/logs"
    assert code_of(web.get(url)) == (404, "LOG_NOT_FOUND")
    scheduler.attempt(task_id, log="the first\n")
    scheduler.attempt(task_id, log="".join(f"步 {number}\n" for number in range(6000)))
    for tail in (1, 200, 1000, 2000, 5000):
        answer = web.get(url, params={"tail": tail})
        assert answer.text.splitlines() == [f"步 {number}" for number in range(6000 - tail, 6000)]
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        assert (answer.headers["x-log-attempt"], answer.headers["x-log-lines"]) == ("2", str(tail))
        assert answer.headers["x-log-whole"] == "false"
    assert len(web.get(url).text.splitlines()) == 2000
    first = web.get(url, params={"attempt": 1})
    assert (first.text, first.headers["x-log-whole"], first.headers["x-log-size"]) == ("the first\n", "true", "10")
    assert code_of(web.get(url, params={"attempt": 3})) == (404, "LOG_NOT_FOUND")
    for bad in ({"tail": 0}, {"tail": 5001}, {"attempt": 0}, {"attempt": "last"}):
        assert web.get(url, params=bad).status_code == 422


def test_a_link_in_place_of_the_log_shows_nothing(
    web: httpx.Client, scheduler: Scheduler, deployment: Deployment
) -> None:
    task_id = new(web)
    folder = scheduler.attempt(task_id)
    (deployment.settings().homes / "users/bob/jobs/secret").write_text("bob's")
    (folder / "driver.log").symlink_to(deployment.settings().homes / "users/bob/jobs/secret")
    answer = web.get(f"{TASKS}/{task_id}/logs")
    assert answer.status_code == 404 and "bob's" not in answer.text


def test_what_a_task_left_is_told_by_its_whole_path(web: httpx.Client, scheduler: Scheduler) -> None:
    task_id = new(web)
    folder = scheduler.attempt(task_id)
    (folder / "export").mkdir()
    (folder / "export" / "net.onnx").touch()
    assert web.get(f"{TASKS}/{task_id}").json()["artifacts"] == []
    scheduler.bring(task_id, State.SUCCEEDED)
    seen = web.get(f"{TASKS}/{task_id}").json()
    path = f"/private/users/alice/jobs/{task_id}--a01"
    assert seen["artifacts"] == [{"path": "export/net.onnx", "file": f"{path}/export/net.onnx"}]
    assert seen["attempts"][0]["folder"]["path"] == path
    assert web.get("/api/v2/files/content", params={"path": seen["artifacts"][0]["file"]}).status_code == 200


def test_a_model_that_a_task_left_becomes_a_conversion_that_both_name(
    web: httpx.Client, scheduler: Scheduler, described: Any
) -> None:
    task_id = new(web)
    folder = scheduler.attempt(task_id)
    scheduler.bring(task_id, State.SUCCEEDED)
    (folder / "model.onnx").write_bytes(small_model())
    (folder / "pictures").mkdir()
    for name, data in pngs(2):
        (folder / "pictures" / name).write_bytes(data)
    url = f"{TASKS}/{task_id}/convert"
    answer = web.post(url, json={"artifact": "model.onnx", "images": "pictures", "name": "by hand"})
    assert answer.status_code == 201, answer.text
    described[f"{TASKS}/{{task_id}}/convert"]["POST"].validate_response(answer)
    made = answer.json()
    assert answer.headers["location"] == made["job"] == f"/jobs/{made['job_id']}"
    assert web.get(made["job"]).json()["name"] == "by hand"
    assert web.get(f"{TASKS}/{task_id}").json()["conversions"] == [made]
    for body, status in (
        ({"artifact": "none.onnx", "images": "pictures"}, 404),
        ({"artifact": "model.onnx", "images": "none"}, 404),
        ({"artifact": "/etc/passwd", "images": "pictures"}, 422),
        ({"artifact": "../../../bob/jobs/secret.onnx", "images": "pictures"}, 422),
        ({"artifact": "model.onnx", "images": "/private/users/bob/datasets"}, 422),
        ({"artifact": "model.onnx", "images": "pictures", "options": {"toolchain": "none"}}, 422),
    ):
        assert web.post(url, json=body).status_code == status, body


def test_a_model_that_a_task_left_is_registered_and_prepared_as_its_program_notes(
    web: httpx.Client, scheduler: Scheduler, described: Any
) -> None:
    """And a conversion by one click takes samples and preprocessing from the same note."""
    task_id = new(web)
    folder = scheduler.attempt(task_id)
    scheduler.bring(task_id, State.SUCCEEDED)
    (folder / "model.onnx").write_bytes(small_model())
    (folder / "samples.zip").write_bytes(zipped(pngs(2)))
    preprocess = {"color": "BGR", "scale": 1.0, "mean": [127.0], "std": [128.0]}
    noted = {"images": "samples.zip", "options": {"preprocess": preprocess}, "labels": ["cat"]}
    (folder / "conversion.json").write_text(json.dumps(noted))
    url = f"{TASKS}/{task_id}/models"
    answer = web.post(url, json={"artifact": "model.onnx", "name": f"of {task_id}"})
    assert answer.status_code == 201, answer.text
    described[f"{TASKS}/{{task_id}}/models"]["POST"].validate_response(answer)
    model = web.get(answer.headers["location"]).json()
    assert (model["note"], model["labels"]) == (f"Task {task_id}", ["cat"])
    taken = web.post(url, json={"artifact": "model.onnx", "name": f"of {task_id}"})
    assert code_of(taken) == (409, "MODEL_EXISTS")
    made = web.post(f"{TASKS}/{task_id}/convert", json={"artifact": "model.onnx"})
    assert made.status_code == 201, made.text
    used = web.get(made.json()["job"]).json()["options"]["preprocess"]
    assert (
        {name: used[name] for name in preprocess}
        == preprocess
        == {name: model["preprocess"][name] for name in preprocess}
    )


def test_nothing_is_sent_to_conversion_before_the_task_has_succeeded(web: httpx.Client) -> None:
    body = {"artifact": "model.onnx", "images": "pictures"}
    task_id = new(web)
    assert code_of(web.post(f"{TASKS}/{task_id}/convert", json=body)) == (409, "TASK_NOT_FINISHED")
    assert web.post(f"{TASKS}/{task_id}/convert", json={}).status_code == 422
    assert web.post(f"{TASKS}/{task_id}/convert", content=b"{").status_code == 400


# --- others ---------------------------------------------------------------------------------------
ASKED = [
    ("GET", ""),
    ("GET", "/logs"),
    ("GET", "/events"),
    ("GET", "/spec"),
    ("POST", "/convert"),
    ("POST", "/export"),
    ("POST", "/models"),
]
BODIES = {
    "/convert": {"artifact": "a", "images": "b"},
    "/export": {},
    "/models": {"artifact": "a", "name": "b"},
}


def test_an_administrator_is_answered_as_if_anothers_task_did_not_exist(web: httpx.Client, admin: Person) -> None:
    task_id = new(web)
    unknown = task_id[:-4] + "zzzz"
    with admin.api() as api:
        for method, rest in ASKED:
            answers = [
                api.http.request(method, f"{TASKS}/{x}{rest}", json=BODIES.get(rest)) for x in (task_id, unknown)
            ]
            assert code_of(answers[0]) == (404, "TASK_NOT_FOUND"), (method, rest)
            assert answers[0].text.replace(task_id, unknown) == answers[1].text, (method, rest)


def test_administrators_list_order_and_cancel_anybodys_tasks_and_others_do_not(
    web: httpx.Client, other: httpx.Client, admin: Person
) -> None:
    task_id = new(web)
    assert code_of(other.post(f"{TASKS}/{task_id}/cancel")) == (404, "TASK_NOT_FOUND")
    for user in ("*", "alice"):
        assert code_of(other.get(TASKS, params={"user": user})) == (403, "FORBIDDEN")
    assert task_id in [task["task_id"] for task in web.get(TASKS, params={"user": "alice"}).json()["tasks"]]
    with admin.api() as api:
        for user in ("*", "alice"):
            listed = api.http.get(TASKS, params={"user": user}).json()["tasks"]
            assert ("alice", task_id) in [(task["user"], task["task_id"]) for task in listed]
        assert task_id not in api.http.get(TASKS).text
        assert api.http.get(TASKS, params={"user": "bob", "q": task_id}).json()["tasks"] == []
        cancelled = api.http.post(f"{TASKS}/{task_id}/cancel")
    assert (cancelled.status_code, cancelled.json()["state"]) == (202, "CANCELED")
    assert web.get(f"{TASKS}/{task_id}/events").json()["events"][-1]["payload"]["by"] == "root-admin"


def test_the_page_of_all_tasks_orders_and_cancels_them(web: httpx.Client, other: httpx.Client, admin: Person) -> None:
    task_id, page = new(web), "/ui/admin/tasks"
    with admin.browser() as browser:
        seen = browser.get(page, params={"user": "alice", "state": "unended"}).text
        assert f"{page}/{task_id}/cancel" in seen
        for action, data in (("priority", {"priority": "high"}), ("cancel", {})):
            assert browser.post(f"{page}/{task_id}/{action}", data=data).status_code == 303
        assert browser.post(f"{page}/{task_id}/cancel").status_code == 303, "it is cancelled already"
        refused = browser.post(f"{page}/{task_id}/priority", data={"priority": "low"})
        assert refused.status_code == 409 and "does not wait any more" in refused.text
    task = web.get(f"{TASKS}/{task_id}").json()
    assert (task["state"], task["priority"]) == ("CANCELED", "high")


@pytest.mark.parametrize("name", ["%00", "%F0%9F%98%80", "..", "a%0Ab", "x" * 3000])
def test_what_is_no_id_is_not_found(web: httpx.Client, name: str) -> None:
    assert web.get(f"{TASKS}/{name}").status_code == 404


def test_the_cluster_shows_who_holds_what_and_no_other_s_tasks(
    web: httpx.Client, other: httpx.Client, admin: Person, deployment: Deployment
) -> None:
    deployment.redis.delete("training:cluster")
    empty = web.get("/api/v2/cluster").json()
    assert (empty["is_on"], empty["seen_at"], empty["nodes"]) == (True, None, [])
    node = Node("n1", "10.0.0.1", 8, 2, 26, 8)
    holders = (
        Holder("alices-task", "alice", "ppo", "RUNNING", 4, {"n1": 4.0}),
        Holder("bobs-task", "bob", "sft", "SUBMITTED", 2, {}),
    )
    view = ClusterView(
        "2026-11-01T12:00:00.000Z", (node,), holders, queued=3, unreachable_since="2026", problem="Ray is new."
    )
    ClusterPicture(deployment.redis).put(view)
    seen = web.get("/api/v2/cluster")
    assert "bobs-task" not in seen.text
    cluster = seen.json()
    assert cluster["problem"] == "Ray is new."
    assert (cluster["queued"], cluster["unreachable_since"], cluster["seen_at"]) == (3, "2026", view.seen_at)
    assert cluster["nodes"] == [{**vars(node), "use": None}]
    assert [(held["user"], held["gpus"], held["task_id"]) for held in cluster["holders"]] == [
        ("alice", 4, "alices-task"),
        ("bob", 2, None),
    ]
    assert "alices-task" not in other.get("/api/v2/cluster").text
    with admin.api() as api:
        assert "alices-task" in api.http.get("/api/v2/cluster").text
    deployment.redis.delete("training:cluster")


# --- true to the document, and to what was taken ------------------------------------------------------
def test_what_is_answered_is_as_described(
    web: httpx.Client, described: Any, scheduler: Scheduler, deployment: Deployment
) -> None:
    task_id = new(web)
    scheduler.attempt(task_id, log="x\n")
    scheduler.bring(task_id, State.PENDING_RESOURCES, waiting=WaitingReason(WaitingCode.BEHIND, {"ahead": 1}))
    one = f"{TASKS}/{{task_id}}"
    steps = [
        ("POST", TASKS, {"content": SCRIPT}, 201),
        ("POST", TASKS, {"content": "x"}, 400),
        ("GET", TASKS, {}, 200),
        ("GET", one, {}, 200),
        ("GET", f"{one}/logs", {}, 200),
        ("GET", f"{one}/events", {}, 200),
        ("GET", f"{one}/spec", {}, 200),
        ("POST", f"{one}/cancel", {}, 202),
        ("GET", "/api/v2/cluster", {}, 200),
        ("POST", f"{one}/convert", {"json": {"artifact": "a", "images": "b"}}, 409),
    ]
    for method, path, options, status in steps:
        answer = web.request(method, path.format(task_id=task_id), **options)
        assert answer.status_code == status, (path, answer.text)
        described[path][method].validate_response(answer)


@pytest.mark.slow
@pytest.mark.parametrize(("operation", "mode"), trials(TRAINING.web().operations))
def test_whatever_is_asked_is_answered_as_described(
    described: Any, alice: Person, operation: Operation, mode: schemathesis.GenerationMode
) -> None:
    assert_answers_as_described(described, operation, mode, alice.bearer)


def test_a_web_that_is_killed_loses_no_task_that_it_has_taken(tmp_path: Path) -> None:
    with Deployment(tmp_path, ray_address=RAY) as deployment:
        process = deployment.web()
        make_common(deployment.settings().homes)
        with httpx.Client(base_url=deployment.url, timeout=60, trust_env=False) as client:
            ids = [new(client) for _ in range(20)]
            positions = [client.get(f"{TASKS}/{task_id}").json()["position"] for task_id in ids]
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        deployment.web()
        with httpx.Client(base_url=deployment.url, timeout=60, trust_env=False) as client:
            listed = [task["task_id"] for task in client.get(TASKS).json()["tasks"]]
            assert listed[::-1] == ids
            assert [client.get(f"{TASKS}/{task_id}").json()["position"] for task_id in ids] == positions
            assert {client.get(f"{TASKS}/{task_id}/spec").text for task_id in ids} == {SCRIPT}
            assert json.loads(client.get(f"{TASKS}/{ids[0]}").text)["state"] == "QUEUED"
