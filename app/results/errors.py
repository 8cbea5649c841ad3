"""Errors of results."""

from __future__ import annotations

from app.kit.errors import BadRequest, NotFound, TooMany


class BadRule(BadRequest):
    """Rules and zones do not match."""

    code = "BAD_RULE"


class RuleEventNotFound(NotFound):
    code = "RULE_EVENT_NOT_FOUND"


class EventPictureNotFound(NotFound):
    """No picture of the event arrived in time."""

    code = "EVENT_PICTURE_NOT_FOUND"


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
