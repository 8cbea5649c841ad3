"""Errors of sources, targets and transfers."""

from __future__ import annotations

from app.kit.errors import BadInput, ModelmillError, NotFound, TooMany


class BadSource(BadInput):
    """The text names no model that could be fetched."""

    code = "BAD_SOURCE"


class BadTarget(BadInput):
    """The text names no place that results could be pushed to."""

    code = "BAD_TARGET"


class SourceRefused(BadInput):
    """The operator does not allow this source."""

    code = "SOURCE_REFUSED"


class TargetRefused(BadInput):
    """The operator does not allow results to be sent there."""

    code = "TARGET_REFUSED"


class SourceTooLarge(BadInput):
    """The model has more bytes than allowed."""

    code = "SOURCE_TOO_LARGE"


REACH_HINT = "Is the address right, and can this service reach it?"


class TransferFailed(ModelmillError):
    """The other side refused, or broke off."""

    status = 502
    code = "TRANSFER_FAILED"


class TransferNotFound(NotFound):
    code = "TRANSFER_NOT_FOUND"


class TooManyTransfers(TooMany):
    """This user has too many unfinished transfers."""

    code = "TOO_MANY_TRANSFERS"


class NothingToExport(BadInput):
    """The job has not completed, so there is nothing to push."""

    code = "NOTHING_TO_EXPORT"
