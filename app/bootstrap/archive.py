"""Puts the archive of conversions together: its index is in SQL, which the stages' workers do without."""

from __future__ import annotations

from datetime import timedelta

from app.accounts.errors import UserNotFound
from app.accounts.service import Accounts
from app.conversion.service import Conversion
from app.conversion.service.archive import Archive
from app.conversion.store import JobStore
from app.kit.objects import ObjectStore
from app.settings import Settings


def open_archive(
    settings: Settings, accounts: Accounts, store: JobStore, objects: ObjectStore, conversion: Conversion
) -> Archive:
    """Nothing connects before it is used.

    Args:
        conversion: whose cache and submissions the archive shares.
    """

    def is_user(name: str) -> bool:
        try:
            accounts.users.get(name)
        except UserNotFound:
            return False
        return True

    return Archive(
        accounts.database,
        store,
        objects,
        conversion.cache,
        conversion.submissions,
        is_user=is_user,
        gone_ttl=timedelta(seconds=settings.record_ttl_s),
    )
