"""Errors of notifications."""

from __future__ import annotations

from app.kit.errors import BadInput, Conflict, NotFound, TooMany


class TargetNotFound(NotFound):
    code = "NOTIFICATION_TARGET_NOT_FOUND"


class DeliveryNotFound(NotFound):
    code = "NOTIFICATION_DELIVERY_NOT_FOUND"


class BadAddress(BadInput):
    """What was given is no e-mail address."""

    code = "BAD_EMAIL_ADDRESS"


class MailOff(Conflict):
    """This installation has no mail server."""

    code = "MAIL_NOT_CONFIGURED"


class TooManyTargets(TooMany):
    """The user has as many as may be."""

    code = "TOO_MANY_NOTIFICATION_TARGETS"
    can_retry = False


class TooManyTests(TooMany):
    """The target was tested a moment ago."""

    code = "TOO_MANY_NOTIFICATION_TESTS"
