"""Logs: one form for every process of the product, and what each line concerns.

A line says what happened in a plain sentence; job, stage, worker and request stand beside it as fields, taken from the
context in which the line was written. JSON is one object per line. This module configures the standard library's
logging and owns nothing else; it must not know any capability.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, Token
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

Format = Literal["auto", "json", "console"]
Level = Literal["debug", "info", "warning", "error"]
Value = str | None | Callable[[], str | None]
"""A field's value, or what is asked for it when a line is written; None leaves the field out."""

CONSOLE = "{time:%H:%M:%S}.{ms:03d} {level:<7} {message}{fields}  [{logger}]"
OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}
"""What a record has of itself; the rest was given as `extra`, but for names that begin with an underscore: libraries
mark records with them (Ray does, every record of its process). color_message is Uvicorn's, its message once more."""
UVICORN = {"uvicorn": True, "uvicorn.error": True, "uvicorn.access": False}
"""Its own line for each request would have the query in it, and so the signatures of signed links; ours has not."""
HTTP_CLIENT = "httpx"
"""Has a line for each request, too, at info: with the query, and of a node that reports one every few seconds."""
TO_JSON = json.JSONEncoder(ensure_ascii=False, default=str).encode
_context: ContextVar[Mapping[str, Value]] = ContextVar("log_context", default={})  # noqa: B039  # it is never written to


def configure(form: Format, level: Level) -> None:
    """Write every log of this process to stderr in this form. May be called again.

    Takes the place of what Dramatiq, Periodiq and Uvicorn have set up before they load us; handlers of other kinds (a
    test's, an error tracker's) stay.
    """
    handler = _StderrHandler()
    handler.setFormatter(JsonFormatter() if chosen(form) == "json" else ConsoleFormatter())
    root = logging.getLogger()
    for old in [h for h in root.handlers if type(h) in (logging.StreamHandler, _StderrHandler)]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())
    for name, is_wanted in UVICORN.items():
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.setLevel(logging.NOTSET)
        logger.propagate = is_wanted
    logging.getLogger(HTTP_CLIENT).setLevel(logging.NOTSET if level == "debug" else logging.WARNING)
    # Python's documented switches for what no line of ours shows: thread, process name, and place in the code.
    logging.logThreads = logging.logMultiprocessing = False
    logging._srcfile = ""


def chosen(form: Format) -> Literal["json", "console"]:
    """auto: readable on a terminal, JSON anywhere else. The process is asked, for a worker's sys.stderr is a pipe."""
    if form != "auto":
        return form
    try:
        return "console" if os.isatty(2) else "json"
    except OSError:  # pragma: no cover  # stderr was closed
        return "json"


@contextmanager
def context(**fields: Value) -> Iterator[None]:
    """Every line written in this block, in this thread or task, carries these fields."""
    token = enter(**fields)
    try:
        yield
    finally:
        leave(token)


def enter(**fields: Value) -> Token[Mapping[str, Value]]:
    """As `context`, for a block that begins and ends in two different calls."""
    return _context.set({**_context.get(), **fields})


def leave(token: Token[Mapping[str, Value]]) -> None:
    _context.reset(token)


class _StderrHandler(logging.StreamHandler[TextIO]):
    """Writes to what sys.stderr is now, for it changes; but not through the pipe that Dramatiq puts there in a worker.

    Its master would do nothing but copy each line to the same place, for which it has to be woken up.
    """

    def emit(self, record: logging.LogRecord) -> None:
        is_pipe_to_master = hasattr(sys.stderr, "pipe")
        self.stream = sys.__stderr__ if is_pipe_to_master and sys.__stderr__ else sys.stderr
        super().emit(record)


class JsonFormatter(logging.Formatter):
    """{"time", "level", "logger", "message", …fields, "exception"}: one line, whatever the message has in it."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": _time(record).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "pid": record.process,
            **_fields(record),
        }
        trace = _trace(self, record)
        if trace:
            line["exception"] = trace
        return TO_JSON(line)


class ConsoleFormatter(logging.Formatter):
    """For people: time, level, sentence, then the fields as name=value."""

    def format(self, record: logging.LogRecord) -> str:
        time = _time(record).astimezone()
        fields = "".join(f" {name}={value}" for name, value in _fields(record).items())
        line = CONSOLE.format(
            time=time,
            ms=time.microsecond // 1000,
            level=record.levelname.lower(),
            message=record.getMessage(),
            fields=fields and " " + fields,
            logger=record.name,
        )
        trace = _trace(self, record)
        return f"{line}\n{trace}" if trace else line


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    fields = {name: value() if callable(value) else value for name, value in _context.get().items()}
    fields |= {name: value for name, value in vars(record).items() if name not in OWN and not name.startswith("_")}
    return {name: value for name, value in fields.items() if value is not None}


def _time(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC)


def _trace(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    parts = [formatter.formatException(record.exc_info)] if record.exc_info and record.exc_info[0] else []
    if record.stack_info:
        parts.append(formatter.formatStack(record.stack_info))
    return "\n".join(parts)
