"""Errors of results."""

from __future__ import annotations

from app.kit.errors import BadRequest, NotFound, TooMany


class SinkNotFound(NotFound):
    code = "SINK_NOT_FOUND"


class BadSink(BadRequest):
    """No address that rows could be sent to."""

    code = "BAD_SINK"


class TooManySinks(TooMany):
    code = "TOO_MANY_SINKS"
    can_retry = False


class TooManySinkTests(TooMany):
    """So many wait for their receivers' answers: each holds a thread of the web."""

    code = "TOO_MANY_SINK_TESTS"
