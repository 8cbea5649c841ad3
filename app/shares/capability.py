"""What links to jobs are to the product."""

from __future__ import annotations

from app.kit.capability import Capability, WebPart


def _web() -> WebPart:
    from app.shares.api import OPERATIONS
    from app.shares.pages import ROUTES

    return WebPart(operations=OPERATIONS, pages=ROUTES)


SHARES = Capability(
    "shares",
    web=_web,
    tables=("app.shares.store",),
)
