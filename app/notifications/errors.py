"""Errors of notifications."""

from __future__ import annotations

from app.kit.errors import BadInput, Conflict, NotFound, TooMany


class TargetNotFound(NotFound, code="NOTIFICATION_TARGET_NOT_FOUND"): ...


class DeliveryNotFound(NotFound, code="NOTIFICATION_DELIVERY_NOT_FOUND"): ...


class BadAddress(BadInput, code="BAD_EMAIL_ADDRESS"):
    """What was given is no e-mail address."""


class MailOff(Conflict, code="MAIL_NOT_CONFIGURED"):
    """This installation has no mail server."""


class TooManyTargets(TooMany, code="TOO_MANY_NOTIFICATION_TARGETS", can_retry=False):
    """The user has as many as may be."""


class TooManyTests(TooMany, code="TOO_MANY_NOTIFICATION_TESTS"):
    """The target was tested a moment ago."""
