"""Errors of demonstrations."""

from __future__ import annotations

from app.kit.errors import Conflict, NotFound


class DemonstrationUnknown(NotFound, code="DEMONSTRATION_UNKNOWN"): ...


class DemonstrationRefused(Conflict, code="DEMONSTRATION_REFUSED"):
    """This installation has accounts, so nodes do not join it by themselves; or it cannot start a Ray cluster."""
