"""Logs: one format for every process of the product, with context fields.

A line describes an event in a plain sentence; job, stage, worker and request are fields, taken from the context in
which the line was written. JSON is one object per line. This module only configures the standard library's logging; it
depends on no capability.
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
from functools import lru_cache
from typing import Literal, TextIO

from app.kit.text.json_values import JsonObject

Format = Literal["auto", "json", "console"]
Level = Literal["debug", "info", "warning", "error"]
Value = str | None | Callable[[], str | None]
"""A field's value, or a function that returns it when a line is written; None omits the field."""

CONSOLE = "{time:%H:%M:%S}.{ms:03d} {level:<7} {message}{fields}  [{logger}]"
OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}
"""Attributes of a record itself; others were passed as `extra`, except names that start with an underscore: libraries
mark records with them (Ray does, for every record of its process). color_message is Uvicorn's, a copy of its
message."""
UVICORN = {"uvicorn": True, "uvicorn.error": True, "uvicorn.access": False}
"""Its own line for each request would contain the query, and so the signatures of signed links; ours does not."""
HTTP_CLIENT = "httpx"
"""Also logs a line for each request at info: with the query, and for a node that reports every few seconds."""
TO_JSON = json.JSONEncoder(ensure_ascii=False, default=str).encode
_context: ContextVar[Mapping[str, Value]] = ContextVar("log_context", default={})  # noqa: B039  # it is never written to


def configure(form: Format, level: Level) -> None:
    """Writes every log of this process to stderr in this format. May be called again.

    It replaces the handlers that Dramatiq, Periodiq and Uvicorn install before they load us; other handlers (of a test,
    of an error tracker) stay.
    """
    handler = _StderrHandler()
    handler.setFormatter(JsonFormatter() if choose_format(form) == "json" else ConsoleFormatter())
    root = logging.getLogger()
    for old in [h for h in root.handlers if type(h) in (logging.StreamHandler, _StderrHandler)]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())
    for name, propagates in UVICORN.items():
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.setLevel(logging.NOTSET)
        logger.propagate = propagates
    logging.getLogger(HTTP_CLIENT).setLevel(logging.NOTSET if level == "debug" else logging.WARNING)
    # Python's documented switches for what our lines never show: thread, process name, and place in the code.
    logging.logThreads = logging.logMultiprocessing = False
    logging._srcfile = ""


def choose_format(form: Format) -> Literal["json", "console"]:
    """auto: readable on a terminal, JSON otherwise. Checks the process, because a worker's sys.stderr is a pipe."""
    if form != "auto":
        return form
    try:
        return "console" if os.isatty(2) else "json"
    except OSError:  # pragma: no cover  # stderr was closed
        return "json"


@contextmanager
def context(**fields: Value) -> Iterator[None]:
    """Adds these fields to every line that this thread or task writes in the block."""
    token = enter(**fields)
    try:
        yield
    finally:
        leave(token)


def enter(**fields: Value) -> Token[Mapping[str, Value]]:
    """Like `context`, for a block that starts and ends in two different calls."""
    return _context.set({**_context.get(), **fields})


def leave(token: Token[Mapping[str, Value]]) -> None:
    _context.reset(token)


class _StderrHandler(logging.StreamHandler[TextIO]):
    """Writes to the current sys.stderr, because it changes, but not through the pipe that Dramatiq installs in a
    worker.

    Dramatiq's master process would only copy each line to the same place, and would have to wake up for it.
    """

    def emit(self, record: logging.LogRecord) -> None:
        is_pipe_to_master = hasattr(sys.stderr, "pipe")
        self.stream = sys.__stderr__ if is_pipe_to_master and sys.__stderr__ else sys.stderr
        super().emit(record)


class JsonFormatter(logging.Formatter):
    """{"time", "level", "logger", "message", …fields, "exception"}: one line, whatever the message contains."""

    def format(self, record: logging.LogRecord) -> str:
        line: JsonObject = {
            "time": f"{_format_second(int(record.created))}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "pid": record.process,
            **_collect_fields(record),
        }
        trace = _format_trace(self, record)
        if trace:
            line["exception"] = trace
        return TO_JSON(line)


class ConsoleFormatter(logging.Formatter):
    """For people: time, level, sentence, then the fields as name=value."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).astimezone()
        fields = "".join(f" {name}={value}" for name, value in _collect_fields(record).items())
        line = CONSOLE.format(
            time=time,
            ms=time.microsecond // 1000,
            level=record.levelname.lower(),
            message=record.getMessage(),
            fields=fields and " " + fields,
            logger=record.name,
        )
        trace = _format_trace(self, record)
        return f"{line}\n{trace}" if trace else line


def _collect_fields(record: logging.LogRecord) -> JsonObject:
    fields = {name: value() if callable(value) else value for name, value in _context.get().items()}
    if not vars(record).keys() <= OWN:
        fields |= {name: value for name, value in vars(record).items() if name not in OWN and not name.startswith("_")}
    return {name: value for name, value in fields.items() if value is not None}


@lru_cache(maxsize=1)
def _format_second(since_1970_s: int) -> str:
    return datetime.fromtimestamp(since_1970_s, UTC).isoformat()[: -len("+00:00")]


def _format_trace(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    parts = [formatter.formatException(record.exc_info)] if record.exc_info and record.exc_info[0] else []
    if record.stack_info:
        parts.append(formatter.formatStack(record.stack_info))
    return "\n".join(parts)
