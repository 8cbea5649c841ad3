"""What data homes are to the product."""

from __future__ import annotations

from app.kit.capability import Capability, WebPart


def _web() -> WebPart:
    from app.homes.api import OPERATIONS
    from app.homes.pages import ROUTES

    return WebPart(operations=OPERATIONS, pages=ROUTES)


HOMES = Capability("homes", web=_web, actors=("homes",))
