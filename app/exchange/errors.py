"""Errors of sources, targets and transfers."""

from __future__ import annotations

from app.kit.errors import BadInput, ModelmillError, NotFound, TooMany


class BadSource(BadInput, code="BAD_SOURCE"):
    """The text names no model that could be fetched."""


class BadTarget(BadInput, code="BAD_TARGET"):
    """The text names no place that results could be pushed to."""


class SourceRefused(BadInput, code="SOURCE_REFUSED"):
    """The operator does not allow this source."""


class TargetRefused(BadInput, code="TARGET_REFUSED"):
    """The operator does not allow results to be sent there."""


class SourceTooLarge(BadInput, code="SOURCE_TOO_LARGE"):
    """The model has more bytes than allowed."""


REACH_HINT = "Is the address right, and can this service reach it?"


class TransferFailed(ModelmillError, status=502, code="TRANSFER_FAILED"):
    """The other side refused, or broke off."""


class TransferNotFound(NotFound, code="TRANSFER_NOT_FOUND"): ...


class TooManyTransfers(TooMany, code="TOO_MANY_TRANSFERS"):
    """This user has too many unfinished transfers."""


class NothingToExport(BadInput, code="NOTHING_TO_EXPORT"):
    """The job has not completed, so there is nothing to push."""
