"""The declaration of the capability accounts. Its commands work on the database, which `app.cli` opens for them."""

from __future__ import annotations

from pathlib import Path

from app.kit.capability import Capability, web_part
from app.kit.web.navigation import Area, NavigationEntry, administrators

ACCOUNTS = Capability(
    "accounts",
    web=web_part("app.accounts.api", "app.accounts.pages"),
    navigation=(
        NavigationEntry(Area.WORKSPACE, 30, "My account", "/ui/account", "account"),
        NavigationEntry(Area.WORKSPACE, 40, "Users", "/ui/admin/users", "users", condition=administrators),
    ),
    tables=("app.accounts.store.tables",),
    migrations=Path(__file__).parent / "migrations",
)
