"""`modelmill train`: what it says, what it refuses, how it follows a log, and the exit codes a script can rely on."""

from __future__ import annotations

import io
import json
import re
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from app.kit.cli.command import Exit
from app.training.cli import task_follower
from app.training.cli.tables import cluster_lines, nodes_table, task_lines, tasks_table
from app.training.cli.task_follower import GAP, new_of
from tests.harness.command_line import typed_in
from tests.harness.http_server import respond, served

typed = typed_in("train")
NOBODY = "http://127.0.0.1:1"
ID = "mvp2-alice-script-20261101-120000-0a1b"
JOB = "0b0c0d0e-0000-4000-8000-000000000000"
CONVERTING = "workload: script\ncode_path: /c\nconvert: {images: pictures}\n"


def attempt(number: int = 1, **fields: Any) -> dict[str, Any]:
    return {
        "attempt_no": number,
        "ray_submission_id": f"{ID}--a{number:02}",
        "ray_status": "RUNNING",
        "message": "",
        "failure_kind": None,
        "exit_code": None,
        "start_time": None,
        "end_time": None,
        "folder": None,
        **fields,
    }


def task(state: str = "QUEUED", **fields: Any) -> dict[str, Any]:
    return {
        "task_id": ID,
        "name": "",
        "workload": "script",
        "state": state,
        "position": None,
        "next_run_at": None,
        "created_at": "2026-11-01T12:00:00.000Z",
        "ended_at": None,
        "waiting_reason": "",
        "error_summary": "",
        "demand": {"nodes": 1, "gpus_per_node": 0, "gpus": 0, "cpus": 2.0, "resources": {}},
        "environment": "",
        "cluster": "",
        "latest_attempt": None,
        "attempts": [],
        "artifacts": [],
        "conversions": [],
        "jobspec": "workload: script\ncode_path: /c\n",
        **fields,
    }


def job(status: str, **fields: Any) -> dict[str, Any]:
    return {"job_id": JOB, "status": status, "error": None, **fields}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """answers: by "METHOD path" without the query, what is given to each request in turn; the last one for ever. Each
    is (status, JSON or bytes). seen: (method, path with query, headers, body)."""
    monkeypatch.setattr(task_follower, "POLL_S", 0.01)
    told = SimpleNamespace(answers={}, seen=[])

    def answer(request: BaseHTTPRequestHandler, body: bytes) -> None:
        told.seen.append((request.command, request.path, request.headers, body))
        known = told.answers.get(f"{request.command} {request.path.partition('?')[0]}")
        missing = (404, {"error": {"code": "TASK_NOT_FOUND", "message": "There is no such task.", "hint": ""}})
        status, content = missing if known is None else known.pop(0) if len(known) > 1 else known[0]
        content = content if isinstance(content, bytes) else json.dumps(content).encode()
        respond(request, content, status)

    with served(answer) as told.url:
        yield told


@pytest.fixture
def spec(tmp_path) -> str:
    file = tmp_path / "train.yaml"
    file.write_text("workload: script\n")
    return str(file)


def log(text: str) -> tuple[int, bytes]:
    return 200, text.encode()


# --- usage ----------------------------------------------------------------------------------------
def test_a_file_that_is_not_there_is_not_found_before_anything_is_asked(monkeypatch, capsys, tmp_path):
    assert typed(monkeypatch, "submit", tmp_path / "no.yaml", "--url", NOBODY) == Exit.NOT_FOUND
    assert "there is no file" in capsys.readouterr().err


def test_a_folder_is_no_file(monkeypatch, tmp_path):
    assert typed(monkeypatch, "submit", tmp_path, "--url", NOBODY) == Exit.BAD_INPUT


def test_a_refusal_is_said_with_its_hint(monkeypatch, capsys, server, spec):
    error = {"code": "TRAINING_OFF", "message": "It trains nothing.", "hint": "Set MODELMILL_RAY_ADDRESS."}
    server.answers = {"POST /api/v2/tasks": [(503, {"error": error})]}
    assert typed(monkeypatch, "submit", spec, "--url", server.url) == Exit.FAILED
    assert capsys.readouterr().err == "modelmill: It trains nothing.\n  Set MODELMILL_RAY_ADDRESS.\n"


def test_the_token_of_the_environment_is_sent(monkeypatch, server):
    monkeypatch.setenv("MODELMILL_TOKEN", " mm_secret\n")
    server.answers = {f"GET /api/v2/tasks/{ID}": [(200, task())]}
    assert typed(monkeypatch, "show", ID, "--url", server.url) == Exit.OK
    assert server.seen[0][2]["Authorization"] == "Bearer mm_secret"


# --- submitting and following ---------------------------------------------------------------------
def test_what_is_submitted_is_sent_as_it_is_with_a_key_of_its_own(monkeypatch, capsys, server):
    text = b"# \xe8\xa8\x93\r\nworkload: script\n"
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(text)))
    server.answers = {"POST /api/v2/tasks": [(201, task())]}
    assert typed(monkeypatch, "submit", "-", "--no-follow", "--url", server.url) == Exit.OK
    assert capsys.readouterr().out == f"{ID}\n"
    _, _, headers, body = server.seen[0]
    assert body == text and len(headers["Idempotency-Key"]) > 20


def test_a_task_whose_answer_was_lost_is_asked_for_again_with_the_same_key(monkeypatch, capsys, server, spec):
    server.answers = {"POST /api/v2/tasks": [(502, b"<html>bad gateway</html>"), (200, task())]}
    assert typed(monkeypatch, "submit", spec, "--no-follow", "--url", server.url) == Exit.OK
    assert capsys.readouterr().out == f"{ID}\n"
    first, again = (headers["Idempotency-Key"] for _, _, headers, _ in server.seen)
    assert first == again


def test_a_task_is_followed_through_its_states_and_its_log_to_its_end(monkeypatch, capsys, server, spec):
    one = {"latest_attempt": attempt()}
    server.answers = {
        "POST /api/v2/tasks": [(201, task())],
        f"GET /api/v2/tasks/{ID}": [
            (200, task("PENDING_RESOURCES", position=2, waiting_reason="waiting: 0 GPUs free, 8 needed")),
            *[(200, task("RUNNING", **one))] * 3,
            (200, task("SUCCEEDED", **one)),
        ],
        f"GET /api/v2/tasks/{ID}/logs": [
            (404, {"error": {"code": "LOG_NOT_FOUND", "message": "not yet"}}),
            log("a\n"),
            log("a\nb\n"),
            log("a\nb\nc\n"),
        ],
    }
    assert typed(monkeypatch, "submit", spec, "--url", server.url) == Exit.OK
    assert capsys.readouterr().out.splitlines() == [
        f"task {ID}",
        "PENDING_RESOURCES (position 2)  waiting: 0 GPUs free, 8 needed",
        "RUNNING",
        "attempt 1",
        "a",
        "b",
        "c",
        "SUCCEEDED",
    ]


def test_a_log_is_followed_from_its_last_lines_on(monkeypatch, capsys, server):
    one = {"latest_attempt": attempt()}
    server.answers = {
        f"GET /api/v2/tasks/{ID}": [(200, task("RUNNING", **one))] * 2 + [(200, task("SUCCEEDED", **one))],
        f"GET /api/v2/tasks/{ID}/logs": [log("a\n\rb\nb\n"), log("a\n\rb\nb\nb\nc\n")],
    }
    assert typed(monkeypatch, "logs", ID, "-f", "--tail", "2", "--url", server.url) == Exit.OK
    assert capsys.readouterr().out == "\rb\nb\nb\nc\n"


def test_the_log_of_the_next_attempt_begins_anew(monkeypatch, capsys, server):
    server.answers = {
        f"GET /api/v2/tasks/{ID}": [
            (200, task("RUNNING", latest_attempt=attempt(1))),
            (200, task("RUNNING", latest_attempt=attempt(1))),
            (200, task("SUCCEEDED", latest_attempt=attempt(2))),
        ],
        f"GET /api/v2/tasks/{ID}/logs": [log("first\n"), log("second\n")],
    }
    assert typed(monkeypatch, "logs", ID, "-f", "--url", server.url) == Exit.OK
    assert capsys.readouterr().out == "first\nsecond\n"
    assert [path.partition("attempt=")[2] for _, path, *_ in server.seen if "/logs" in path] == ["1", "2"]


@pytest.mark.parametrize(("state", "code"), [("FAILED", Exit.FAILED), ("CANCELED", Exit.CANCELLED)])
def test_the_end_of_a_task_is_the_exit_code(monkeypatch, capsys, server, spec, state, code):
    server.answers = {
        "POST /api/v2/tasks": [(201, task())],
        f"GET /api/v2/tasks/{ID}": [(200, task(state, error_summary="out of luck"))],
    }
    assert typed(monkeypatch, "submit", spec, "--json", "--url", server.url) == code
    captured = capsys.readouterr()
    assert json.loads(captured.out) == {"task": task(state, error_summary="out of luck"), "job": None}
    assert "out of luck" in captured.err


def test_ctrl_c_leaves_the_task_and_says_how_to_go_on(monkeypatch, capsys, server, spec):
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(task_follower, "time", SimpleNamespace(sleep=interrupt, monotonic=time.monotonic))
    server.answers = {"POST /api/v2/tasks": [(201, task())], f"GET /api/v2/tasks/{ID}": [(200, task())]}
    assert typed(monkeypatch, "submit", spec, "--url", server.url) == Exit.CANCELLED
    stderr = capsys.readouterr().err
    for way in ("show", "logs -f", "cancel"):
        assert f"`modelmill train {way} {ID}`" in stderr
    assert not any(path.endswith("/cancel") for _, path, *_ in server.seen)


def test_following_ends_when_the_given_time_is_over(monkeypatch, capsys, server, spec):
    server.answers = {"POST /api/v2/tasks": [(201, task())], f"GET /api/v2/tasks/{ID}": [(200, task())]}
    assert typed(monkeypatch, "submit", spec, "--timeout", "0.05", "--url", server.url) == Exit.FAILED
    assert "It goes on" in capsys.readouterr().err


def test_a_service_that_is_away_for_a_moment_is_waited_for(monkeypatch, capsys, server, spec):
    server.answers = {
        "POST /api/v2/tasks": [(201, task())],
        f"GET /api/v2/tasks/{ID}": [(200, task()), (502, b"<html>bad gateway</html>"), (200, task("SUCCEEDED"))],
    }
    assert typed(monkeypatch, "submit", spec, "--url", server.url) == Exit.OK
    assert capsys.readouterr().out.splitlines()[-1] == "SUCCEEDED"


def test_a_service_that_stays_away_is_given_up_on(monkeypatch, server, spec):
    monkeypatch.setattr(task_follower, "PATIENCE_S", 0)
    server.answers = {"POST /api/v2/tasks": [(201, task())], f"GET /api/v2/tasks/{ID}": [(502, b"<html>")]}
    assert typed(monkeypatch, "submit", spec, "--url", server.url) == Exit.UNREACHABLE


# --- to the conversion ----------------------------------------------------------------------------
def converting(*conversions: dict[str, str]) -> list[tuple[int, dict[str, Any]]]:
    """What is said of a task that succeeded while its conversion comes to be."""
    return [(200, task("SUCCEEDED", jobspec=CONVERTING, conversions=[one] if one else [])) for one in conversions]


def of_conversion(status: str):
    """What the service answers of a task whose result is converted. status: of the job."""
    return {
        "POST /api/v2/tasks": [(201, task())],
        f"GET /api/v2/tasks/{ID}": converting({"job_id": JOB, "problem": ""}),
        f"GET /jobs/{JOB}": [(200, job(status))],
    }


def test_what_the_task_asks_for_is_followed_to_the_file(monkeypatch, capsys, server, spec, tmp_path):
    artifacts = [
        {
            "name": "out.nef",
            "key": f"jobs/{JOB}/out.nef",
            "sha256": "ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73",
        },
        {"name": "model.onnx", "key": f"jobs/{JOB}/input/model.onnx", "sha256": "x"},
    ]
    server.answers = {
        "POST /api/v2/tasks": [(201, task())],
        f"GET /api/v2/tasks/{ID}": converting({}, {}, {"job_id": "", "problem": ""}, {"job_id": JOB, "problem": ""}),
        f"GET /jobs/{JOB}": [(200, job("ONNX")), (200, job("BIE")), (200, job("COMPLETED"))],
        f"GET /jobs/{JOB}/artifacts": [(200, {"artifacts": artifacts})],
        f"GET /jobs/{JOB}/artifacts/out.nef": [(200, b"content")],
    }
    assert typed(monkeypatch, "submit", spec, "--out", tmp_path / "made", "--url", server.url) == Exit.OK
    assert capsys.readouterr().out.splitlines()[-5:] == [
        f"conversion {JOB}",
        "ONNX",
        "BIE",
        "COMPLETED",
        f"out.nef lies in {tmp_path / 'made' / 'out.nef'}",
    ]
    assert [path.name for path in (tmp_path / "made").iterdir()] == ["out.nef"]
    assert (tmp_path / "made" / "out.nef").read_bytes() == b"content"


def test_without_a_folder_it_is_said_how_to_fetch_the_result(monkeypatch, capsys, server, spec):
    server.answers = of_conversion("COMPLETED")
    assert typed(monkeypatch, "submit", spec, "--url", server.url) == Exit.OK
    assert f"`modelmill jobs download {JOB}`" in capsys.readouterr().out


def test_ctrl_c_leaves_the_conversion_and_says_where_to_see_it(monkeypatch, capsys, server, spec):
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(task_follower, "time", SimpleNamespace(sleep=interrupt, monotonic=time.monotonic))
    server.answers = of_conversion("BIE")
    assert typed(monkeypatch, "submit", spec, "--url", server.url) == Exit.CANCELLED
    assert f"The conversion goes on. See it with `modelmill train show {ID}`." in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_to_is_named(monkeypatch, capsys, server, spec, tmp_path):
    server.answers = of_conversion("COMPLETED")
    (tmp_path / "file").touch()
    place = tmp_path / "file" / "made"
    assert typed(monkeypatch, "submit", spec, "--out", place, "--url", server.url) == Exit.BAD_INPUT
    assert f"cannot write to {place}: Not a directory" in capsys.readouterr().err


def test_a_conversion_that_fails_is_a_failure(monkeypatch, capsys, server, spec):
    failed = job("FAILED", error={"step": "bie", "reason": "no pictures", "hint": "Add some."})
    server.answers = {
        "POST /api/v2/tasks": [(201, task())],
        f"GET /api/v2/tasks/{ID}": converting({"job_id": JOB, "problem": ""}),
        f"GET /jobs/{JOB}": [(200, failed)],
    }
    assert typed(monkeypatch, "submit", spec, "--url", server.url) == Exit.FAILED
    assert "bie: no pictures Add some." in capsys.readouterr().out


@pytest.mark.parametrize("made", [{"job_id": "", "problem": "it left no model", "next_try_at": None}, {}])
def test_a_conversion_that_was_not_made_is_a_failure(monkeypatch, capsys, server, spec, made):
    monkeypatch.setattr(task_follower, "BEGINS_WITHIN_S", 0.05)
    server.answers = {"POST /api/v2/tasks": [(201, task())], f"GET /api/v2/tasks/{ID}": converting(made)}
    assert typed(monkeypatch, "submit", spec, "--url", server.url) == Exit.FAILED
    assert made.get("problem", "nothing has begun it") in capsys.readouterr().err


def test_a_conversion_that_is_tried_again_is_waited_for(monkeypatch, capsys, server, spec):
    full = {"job_id": "", "problem": "Too many jobs.", "next_try_at": "noon"}
    server.answers = {
        "POST /api/v2/tasks": [(201, task())],
        f"GET /api/v2/tasks/{ID}": converting({}, full, full, {"job_id": JOB, "problem": ""}),
        f"GET /jobs/{JOB}": [(200, job("COMPLETED"))],
    }
    assert typed(monkeypatch, "submit", spec, "--url", server.url) == Exit.OK
    assert capsys.readouterr().out.count("no conversion yet: Too many jobs. It is tried again at noon.") == 1


# --- naming a task, and the other commands ----------------------------------------------------------
def test_a_task_may_be_named_by_a_part_of_its_id(monkeypatch, capsys, server):
    server.answers = {
        "GET /api/v2/tasks": [
            (200, {"tasks": [task(), {**task(), "task_id": "0a1b-only-in-name"}][:1], "next_cursor": None})
        ],
        f"GET /api/v2/tasks/{ID}": [(200, task())],
    }
    assert typed(monkeypatch, "show", "0a1b", "--url", server.url) == Exit.OK
    assert f"task      {ID}" in capsys.readouterr().out


@pytest.mark.parametrize(("task_ids", "code"), [([], Exit.NOT_FOUND), (["x-0a1b", "y-0a1b"], Exit.BAD_INPUT)])
def test_a_part_that_fits_none_or_several_is_refused(monkeypatch, server, task_ids, code):
    page = {"tasks": [{**task(), "task_id": one} for one in task_ids], "next_cursor": None}
    server.answers = {"GET /api/v2/tasks": [(200, page)]}
    assert typed(monkeypatch, "cancel", "0a1b", "--url", server.url) == code
    assert not any(method == "POST" for method, *_ in server.seen)


def test_a_list_goes_on_over_the_pages_as_far_as_is_wanted(monkeypatch, capsys, server):
    pages = [(200, {"tasks": [task()] * 2, "next_cursor": "7"}), (200, {"tasks": [task()], "next_cursor": None})]
    server.answers = {"GET /api/v2/tasks": pages}
    assert typed(monkeypatch, "list", "--state", "queued", "--workload", "SFT", "--json", "--url", server.url) == 0
    assert len(json.loads(capsys.readouterr().out)) == 3
    assert "state=QUEUED" in server.seen[0][1] and "workload=sft" in server.seen[0][1]
    assert "cursor=7" in server.seen[1][1]


def test_an_empty_list_says_so(monkeypatch, capsys, server):
    server.answers = {"GET /api/v2/tasks": [(200, {"tasks": [], "next_cursor": None})]}
    assert typed(monkeypatch, "list", "--url", server.url) == Exit.OK
    assert capsys.readouterr().out == "There are no tasks.\n"


def test_the_end_of_a_log_is_printed_byte_for_byte(monkeypatch, capfdbinary, server):
    text = b"\xff\xfe bytes\nlast"
    server.answers = {
        f"GET /api/v2/tasks/{ID}": [(200, task("FAILED"))],
        f"GET /api/v2/tasks/{ID}/logs": [(200, text)],
    }
    assert typed(monkeypatch, "logs", ID, "--tail", "7", "--attempt", "2", "--url", server.url) == Exit.OK
    assert capfdbinary.readouterr().out == text
    assert server.seen[-1][1].endswith("?tail=7&attempt=2")


def test_lines_of_a_log_are_looked_for_and_not_followed(monkeypatch, capfd, server):
    server.answers = {f"GET /api/v2/tasks/{ID}": [(200, task())], f"GET /api/v2/tasks/{ID}/logs": [(200, b"loss\n")]}
    assert typed(monkeypatch, "logs", ID, "-q", "LOSS", "--process", "rank 3", "--url", server.url) == Exit.OK
    assert server.seen[-1][1].endswith("?tail=2000&q=LOSS&process=rank+3")
    assert typed(monkeypatch, "logs", ID, "-f", "-q", "LOSS", "--url", server.url) == Exit.BAD_INPUT
    assert "--follow shows every line" in capfd.readouterr().err


def curves(*values: float) -> dict[str, Any]:
    best = {"step": 1, "value": min(values)}
    series = {"name": "loss", "steps": [1, 2], "values": list(values), "times_s": None, "count": 2, "best": best}
    return {"names": ["loss"], "series": [series]}


def test_curves_of_two_tasks_are_drawn_together_with_a_legend(monkeypatch, capsys, server):
    other = f"{ID[:-1]}0"
    server.answers = {
        f"GET /api/v2/tasks/{ID}": [(200, task())],
        f"GET /api/v2/tasks/{other}": [(200, {**task(), "task_id": other})],
        f"GET /api/v2/tasks/{ID}/metrics": [(200, curves(3.0, 1.5))],
        f"GET /api/v2/tasks/{other}/metrics": [(200, curves(2.0, 4.5))],
    }
    assert typed(monkeypatch, "plot", ID, "--with", other, "--url", server.url) == Exit.OK
    drawn = capsys.readouterr().out
    assert "loss over steps" in drawn
    assert f"{ID}: loss: 1.5 at step 2" in drawn and f"{other}: loss: 4.5 at step 2" in drawn


def test_a_curve_that_a_task_does_not_have_is_named_with_those_it_has(monkeypatch, capsys, server):
    server.answers = {
        f"GET /api/v2/tasks/{ID}": [(200, task())],
        f"GET /api/v2/tasks/{ID}/metrics": [(200, curves(3.0, 1.5))],
    }
    assert typed(monkeypatch, "plot", ID, "-m", "loss", "-m", "lost", "--url", server.url) == Exit.NOT_FOUND
    told = capsys.readouterr().err
    assert "the task tells nothing of lost" in told and "What it tells: loss." in told


def test_a_task_is_submitted_again_with_what_was_changed(monkeypatch, capsys, server):
    changes = [{"field": "total_epochs", "before": None, "after": 3}]
    server.answers = {
        f"GET /api/v2/tasks/{ID}": [(200, task())],
        f"POST /api/v2/tasks/{ID}/again": [(201, {**task(), "task_id": "new", "changes": changes})],
    }
    words = ("--set", "total_epochs=3", "--set", "overrides.optim.lr=1e-5", "--set", "name=", "--resume", "40")
    assert typed(monkeypatch, "again", ID, *words, "--url", server.url) == Exit.OK
    written = capsys.readouterr()
    assert (written.out, written.err) == ("new\n", "total_epochs: – → 3\n")
    body = json.loads(server.seen[-1][3])
    assert body == {"set": {"total_epochs": 3, "overrides.optim.lr": 1e-5, "name": None}, "resume": 40}
    assert typed(monkeypatch, "again", ID, "--set", "total_epochs", "--url", server.url) == Exit.BAD_INPUT


def test_checkpoints_are_listed_with_their_value_and_the_best(monkeypatch, capsys, server):
    fields = {"path": "/private/x/global_step_5", "size_bytes": 2_500_000, "written_at": "2026-11-01T12:00:00.000Z"}
    judged, unjudged = {"value": 0.25, "is_best": True}, {"value": None, "is_best": False}
    told = [{**fields, "step": 5, **judged}, {**fields, "step": 9, **unjudged}]
    server.answers = {
        f"GET /api/v2/tasks/{ID}": [(200, task())],
        f"GET /api/v2/tasks/{ID}/checkpoints": [(200, {"metric": "val/loss", "checkpoints": told})],
    }
    assert typed(monkeypatch, "checkpoints", ID, "--url", server.url) == Exit.OK
    drawn = capsys.readouterr().out
    assert re.search(r"val/loss", drawn) and re.search(r"5 .*2\.5 MB.*0\.25.*best", drawn)


@pytest.mark.parametrize(("state", "message"), [("CANCELED", "is cancelled"), ("CANCELING", "is being stopped")])
def test_cancelling_says_whether_it_takes_a_while(monkeypatch, capsys, server, state, message):
    server.answers = {
        f"GET /api/v2/tasks/{ID}": [(200, task())],
        f"POST /api/v2/tasks/{ID}/cancel": [(202, task(state))],
    }
    assert typed(monkeypatch, "cancel", ID, "--url", server.url) == Exit.OK
    assert message in capsys.readouterr().out


def test_letting_go_says_what_may_still_run_and_needs_not_see_the_task_by_its_whole_id(monkeypatch, capsys, server):
    """An administrator may let go of another's task, and not look at it."""
    released = task("CANCELED", error_summary="root let it go: it may still run.")
    server.answers = {f"POST /api/v2/tasks/{ID}/release": [(200, released)]}
    assert typed(monkeypatch, "release", ID, "--url", server.url) == Exit.OK
    assert "may still run" in capsys.readouterr().out


# --- what is new of a log -------------------------------------------------------------------------
LINES = [f"line {number}\n".encode() for number in range(100)]


@pytest.mark.parametrize(
    ("seen", "tail", "new"),
    [
        (b"", b"a\n", b"a\n"),
        (b"a\n", b"a\n", b""),
        (b"a\n", b"a\nb\n", b"b\n"),
        (b"same\nsame\n", b"same\nsame\nsame\n", b"same\n"),
        (b"".join(LINES[:60]), b"".join(LINES[40:90]), b"".join(LINES[60:90])),
        (b"".join(LINES[40:60]), b"".join(LINES[:90]), b"".join(LINES[60:90])),
        (b"".join(LINES[:50]), b"".join(LINES[60:]), GAP + b"".join(LINES[60:])),
        (b"a\nno end", b"a\nno end yet\n", b" yet\n"),
        (b"a\n", b"", b""),
    ],
)
def test_of_a_log_that_grows_the_new_lines_are_printed_once(seen, tail, new):
    assert new_of(seen, tail) == new


# --- what is shown --------------------------------------------------------------------------------
def test_a_task_is_told_in_lines():
    folder = {"path": "/private/users/alice/jobs/x", "purge_at": "2026-11-11"}
    record = task(
        "FAILED",
        error_summary="OUT_OF_MEMORY: too much",
        ended_at="later",
        name="digits",
        attempts=[
            attempt(ray_status="FAILED", failure_kind="OUT_OF_MEMORY", exit_code=-9, message="one\ntwo", folder=folder)
        ],
        artifacts=[{"path": "m.onnx", "file": "/private/m.onnx"}],
        conversions=[{"artifact": "m.onnx", "job_id": JOB, "problem": ""}],
    )
    lines = "\n".join(task_lines(record))
    for words in (
        "state     FAILED  OUT_OF_MEMORY: too much",
        "exit code -9",
        "          two",
        "kept until 2026-11-11",
        "artifact  /private/m.onnx",
        f"convert   m.onnx: job {JOB}",
        "needs     0 GPUs, 2 CPUs",
    ):
        assert words in lines


def test_names_are_no_markup_in_the_table_of_tasks(capsys):
    record = task(name="[bold]x[/bold]", waiting_reason="[red]")
    Console(width=200).print(tasks_table([record], datetime(2026, 11, 1, 13, tzinfo=UTC)))
    output = capsys.readouterr().out
    assert "[bold]x[/bold]" in output and "[red]" in output and "1 h" in output


def cluster(**fields: Any) -> dict[str, Any]:
    node = {
        "node_id": "n" * 56,
        "address": "10.0.0.1",
        "total_gpus": 8.0,
        "free_gpus": 2.0,
        "total_cpus": 26.0,
        "free_cpus": 4.0,
        "may_train": True,
        "resources": {"accelerator_type:A100": 1, "nvlink": 2},
    }
    held = {"user": "alice", "gpus": 8, "cpus": 26.0, "by_node": {"n" * 56: 6.0}, "task_id": ID, "state": "RUNNING"}
    return {
        "is_on": True,
        "seen_at": "now",
        "unreachable_since": None,
        "nodes": [node],
        "holders": [held],
        "queued": 3,
        **fields,
    }


def test_the_cluster_is_told_with_who_holds_what(capsys):
    Console(width=200).print(nodes_table(cluster()))
    assert "6 of 8" in (output := capsys.readouterr().out) and "alice 6" in output
    lines = list(cluster_lines(cluster()))
    assert f"alice: 8 GPUs for {ID} (RUNNING), 2 of them reserved" in lines
    assert lines[-1].startswith("3 in line")


def test_what_needs_no_gpu_is_counted_in_cpus():
    held = {"user": "alice", "gpus": 0, "cpus": 1.0, "by_node": {}, "task_id": None, "state": None}
    first = {"user": "bob", "gpus": 0, "cpus": 2.0, "starts_by": "noon", "after_user": "alice", "after_task": None}
    lines = list(cluster_lines(cluster(holders=[held], first=first)))
    assert "alice: 1 CPU" in lines
    assert "first in line: bob with 2 CPUs, by noon at the latest, when a task of alice ends" in lines


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"is_on": False}, "trains nothing"),
        ({"seen_at": None}, "No scheduler has looked"),
        ({"unreachable_since": "noon"}, "not answered since noon"),
    ],
)
def test_a_cluster_that_cannot_be_shown_says_why(fields, message):
    assert message in next(cluster_lines(cluster(**fields)))


def test_a_checkpoint_is_exported_by_its_step_or_as_the_last_one(monkeypatch, capsys, server):
    server.answers = {f"GET /api/v2/tasks/{ID}": [(200, task())], f"POST /api/v2/tasks/{ID}/export": [(201, task())]}
    bodies = []
    for words in ((), ("--checkpoint", "40", "--onnx")):
        assert typed(monkeypatch, "export", ID, *words, "--url", server.url) == Exit.OK
        assert capsys.readouterr().out == f"{ID}\n"
        bodies.append(json.loads(server.seen[-1][3]))
    assert bodies == [{"checkpoint": "last", "onnx": False}, {"checkpoint": 40, "onnx": True}]


def test_the_model_of_a_task_goes_to_conversion_and_to_the_registry(monkeypatch, capsys, server):
    left = [{"path": "model.onnx", "file": "/private/x/model.onnx"}]
    server.answers = {
        f"GET /api/v2/tasks/{ID}": [(200, task(artifacts=left))],
        f"POST /api/v2/tasks/{ID}/convert": [(201, {"job_id": "j1"})],
        f"POST /api/v2/tasks/{ID}/models": [(201, {"name": "tiny", "version": 2})],
    }
    assert typed(monkeypatch, "convert", ID, "--images", "datasets/a", "--url", server.url) == Exit.OK
    convert = json.loads(server.seen[-1][3])
    assert convert == {"artifact": "model.onnx", "images": "datasets/a", "name": "", "options": {}}
    assert typed(monkeypatch, "register", ID, "tiny", "--new-version", "--url", server.url) == Exit.OK
    register = json.loads(server.seen[-1][3])
    assert register == {"artifact": "model.onnx", "name": "tiny", "new_version": True, "note": ""}
    assert capsys.readouterr().out == "j1\ntiny@2\n"


@pytest.mark.parametrize(("names", "words"), [((), "left no ONNX model"), (("a.onnx", "b.onnx"), "a.onnx, b.onnx")])
def test_which_model_is_meant_has_to_be_clear(monkeypatch, capsys, server, names, words):
    left = [{"path": name, "file": f"/private/x/{name}"} for name in names]
    server.answers = {f"GET /api/v2/tasks/{ID}": [(200, task(artifacts=left))]}
    assert typed(monkeypatch, "convert", ID, "--url", server.url) != Exit.OK
    assert words in capsys.readouterr().err


def test_environments_are_listed_written_and_deleted(monkeypatch, capsys, server, spec):
    one = {"name": "lab", "description": "of us", "image": None, "pip": ["a==1"], "variables": ["A"], "secrets": ["B"]}
    one |= {"priority": "low", "max_gpus_per_task": None, "max_gpus": 8, "max_run_s": None}
    server.answers = {
        "GET /api/v2/task-environments": [(200, {"environments": [one]})],
        "PUT /api/v2/task-environments/lab": [(200, one)],
        "DELETE /api/v2/task-environments/lab": [(204, b"")],
    }
    for words in (("list",), ("put", "lab", spec), ("delete", "lab")):
        assert typed(monkeypatch, "environment", *words, "--url", server.url) == Exit.OK
    told = capsys.readouterr().out
    words = ("a==1", "priority low", "max_gpus 8", "of us", "lab is saved", "lab is deleted")
    assert [word for word in words if word not in told] == []


def test_a_sweep_is_started_again_and_what_differs_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sent = []

    def answering(handler: BaseHTTPRequestHandler, body: bytes) -> None:
        sent.append((handler.path, json.loads(body)))
        changes = [{"field": "vary.total_epochs", "before": [1], "after": [1, 2]}]
        respond(handler, json.dumps({"sweep_id": "new", "tasks": [{}, {}], "changes": changes}).encode(), 201)

    with served(answering) as url:
        assert typed(monkeypatch, "sweep", "again", "old", "--set", "vary.total_epochs=[1, 2]", "--url", url) == 0
    assert sent == [("/api/v2/task-sweeps/old/again", {"set": {"vary.total_epochs": [1, 2]}})]
    told = capsys.readouterr()
    assert told.err == "vary.total_epochs: [1] → [1, 2]\n" and told.out == "new has 2 tasks.\n"
