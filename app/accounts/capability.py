"""What accounts are to the product. Their commands work on the database, which `app.cli` opens for them."""

from __future__ import annotations

from app.kit.capability import Capability, WebPart


def _web() -> WebPart:
    from app.accounts.api import OPERATIONS
    from app.accounts.pages import ROUTES

    return WebPart(operations=OPERATIONS, pages=ROUTES)


ACCOUNTS = Capability("accounts", web=_web)
