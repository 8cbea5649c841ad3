"""The declaration of the capability shares: links to jobs."""

from __future__ import annotations

from app.kit.capability import Capability, web_part

SHARES = Capability(
    "shares",
    web=web_part("app.shares.api", "app.shares.pages"),
    tables=("app.shares.store",),
)
