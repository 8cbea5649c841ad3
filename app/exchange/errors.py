"""Errors of sources, targets and transfers."""

from __future__ import annotations

from app.kit.errors import BadInput, ModelmillError, NotFound, TooMany


class BadSource(BadInput):
    """What was given names no model that could be fetched."""

    code = "BAD_SOURCE"


class SourceRefused(BadInput):
    """The operator does not allow this source."""

    code = "SOURCE_REFUSED"


class TargetRefused(BadInput):
    """The operator does not allow that results go there."""

    code = "TARGET_REFUSED"


class SourceTooLarge(BadInput):
    """More bytes than a model may have here."""

    code = "SOURCE_TOO_LARGE"


class TransferFailed(ModelmillError):
    """The other side did not give or take what it was to."""

    status = 502
    code = "TRANSFER_FAILED"


class TransferNotFound(NotFound):
    code = "TRANSFER_NOT_FOUND"


class TooManyTransfers(TooMany):
    """So many of this user's have not ended."""

    code = "TOO_MANY_TRANSFERS"


class NothingToExport(BadInput):
    """The job has not ended well, so it made nothing."""

    code = "NOTHING_TO_EXPORT"
