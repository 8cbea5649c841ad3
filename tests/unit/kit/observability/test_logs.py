"""Log lines: one form, one line each, and beside the sentence what it concerns."""

from __future__ import annotations

import io
import json
import logging
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from dramatiq.compat import StreamablePipe

from app.kit.observability import logs

logger = logging.getLogger("tests.logs")


@pytest.fixture(autouse=True)
def _root_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_a_line_carries_the_fields_of_the_contexts_it_was_written_in(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("json", "info")
    with logs.context(job_id="j1", worker="w"):
        with logs.context(stage="bie", worker=None):
            logger.info("Within.", extra={"seconds": 2})
        logger.info("Between.")
    logger.info("Outside.")
    within, between, outside = lines(capsys)
    assert (within["job_id"], within["stage"], within["seconds"]) == ("j1", "bie", 2)
    assert "worker" not in within
    assert (between["job_id"], between["worker"]) == ("j1", "w")
    assert "stage" not in between
    assert not {"job_id", "worker", "stage"} & set(outside)


def test_a_field_that_is_not_known_yet_is_asked_for_when_a_line_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("json", "info")
    known: dict[str, str] = {}
    with logs.context(job_id=lambda: known.get("job_id")):
        logger.info("Before.")
        known["job_id"] = "j1"
        logger.info("After.")
    before, after = lines(capsys)
    assert "job_id" not in before
    assert after["job_id"] == "j1"


def test_another_thread_does_not_inherit_the_context(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("json", "info")
    with logs.context(job_id="j1"):
        thread = threading.Thread(target=lambda: logger.info("Elsewhere."))
        thread.start()
        thread.join()
    assert "job_id" not in lines(capsys)[0]


def test_whatever_a_message_has_in_it_a_line_stays_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("json", "info")
    logger.info('He said "%s"', "a\nb\u2028c\x00", extra={"what": object()})
    try:
        raise ValueError("bad\nvalue")
    except ValueError:
        logger.exception("It failed.")
    written, failed = (json.loads(line) for line in capsys.readouterr().err.rstrip("\n").split("\n"))
    assert written["message"] == 'He said "a\nb\u2028c\x00"'
    assert "ValueError: bad\nvalue" in failed["exception"]
    assert failed["level"] == "error"


def test_on_a_console_the_sentence_comes_first_and_the_fields_after_it(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("console", "info")
    with logs.context(job_id="j1"):
        logger.warning("It is %s.", "late")
    text = capsys.readouterr().err
    assert "warning" in text
    assert text.index("It is late.") < text.index("job_id=j1")


def test_lines_below_the_level_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("json", "warning")
    logger.info("No.")
    logger.warning("Yes.")
    assert [line["message"] for line in lines(capsys)] == ["Yes."]


def test_a_worker_writes_past_the_pipe_to_its_master(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs, ours = io.BytesIO(), io.StringIO()
    monkeypatch.setattr("sys.stderr", StreamablePipe(SimpleNamespace(send_bytes=theirs.write)))
    monkeypatch.setattr("sys.__stderr__", ours)
    logs.configure("json", "info")
    logger.info("Straight.")
    assert json.loads(ours.getvalue())["message"] == "Straight."
    assert theirs.getvalue() == b""


@pytest.mark.parametrize("form", ["json", "console"])
def test_the_mark_that_a_library_puts_on_every_record_is_in_no_line(
    form: logs.Format, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make = logging.getLogRecordFactory()

    def marking(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = make(*args, **kwargs)
        record.__dict__["_library_timestamp_ns"] = 1
        return record

    monkeypatch.setattr(logging, "_logRecordFactory", marking)
    logs.configure(form, "info")
    logger.info("Marked.", extra={"seconds": 2})
    line = capsys.readouterr().err
    assert "Marked." in line
    assert "seconds" in line
    assert "_library" not in line


def test_what_a_library_has_set_up_is_replaced_and_other_handlers_stay(capsys: pytest.CaptureFixture[str]) -> None:
    class Tracker(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.append(record.getMessage())

    seen: list[str] = []
    root = logging.getLogger()
    root.addHandler(logging.StreamHandler())
    root.addHandler(Tracker())
    logs.configure("json", "info")
    logs.configure("json", "info")
    logging.getLogger("uvicorn.error").info("Started.")
    assert [line["message"] for line in lines(capsys)] == ["Started."]
    assert seen == ["Started."]


def test_uvicorn_writes_no_line_of_its_own_for_a_request() -> None:
    logging.getLogger("uvicorn.access").addHandler(logging.StreamHandler())
    logs.configure("json", "info")
    assert not logging.getLogger("uvicorn.access").hasHandlers()  # which is what it asks before it writes one


def test_without_a_terminal_auto_is_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.isatty", lambda descriptor: descriptor == 2)
    assert logs.choose_format("auto") == "console"
    monkeypatch.setattr("os.isatty", lambda descriptor: False)
    assert logs.choose_format("auto") == "json"
    assert logs.choose_format("console") == "console"


@pytest.mark.parametrize(("level", "seen"), [("info", False), ("debug", True)])
def test_a_request_that_we_send_is_no_line_of_its_own(
    capsys: pytest.CaptureFixture[str], level: logs.Level, seen: bool
) -> None:
    logs.configure("json", level)
    logging.getLogger("httpx").info("HTTP Request: GET http://x/?signature=1")
    assert bool(lines(capsys)) is seen
    logs.configure("json", "info")
