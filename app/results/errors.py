"""Errors of results."""

from __future__ import annotations

from app.kit.errors import BadRequest, NotFound, TooMany


class BadRule(BadRequest, code="BAD_RULE"):
    """Rules and zones do not match."""


class RuleEventNotFound(NotFound, code="RULE_EVENT_NOT_FOUND"): ...


class EventPictureNotFound(NotFound, code="EVENT_PICTURE_NOT_FOUND"):
    """No picture of the event arrived in time."""


class SinkNotFound(NotFound, code="SINK_NOT_FOUND"): ...


class BadSink(BadRequest, code="BAD_SINK"):
    """No address that rows could be sent to."""


class TooManySinks(TooMany, code="TOO_MANY_SINKS", can_retry=False): ...


class TooManySinkTests(TooMany, code="TOO_MANY_SINK_TESTS"):
    """So many wait for their receivers' answers: each holds a thread of the web."""
