"""Errors of demonstrations."""

from __future__ import annotations

from app.kit.errors import Conflict, NotFound


class DemonstrationUnknown(NotFound):
    code = "DEMONSTRATION_UNKNOWN"


class DemonstrationRefused(Conflict):
    """This installation has accounts: nodes do not join it by themselves."""

    code = "DEMONSTRATION_REFUSED"
