"""Puts data homes together from the settings: for the web, the workers and the SFTP process."""

from __future__ import annotations

from datetime import timedelta
from urllib.parse import urlsplit

from app.homes.model import HomesOptions, Retention
from app.homes.service import Homes
from app.homes.sftp.backend import SftpBackend
from app.kit.sql import Database
from app.settings import Settings


def open_homes(settings: Settings, database: Database) -> Homes:
    """Nothing connects before it is used."""
    return Homes(homes_options(settings), database, _choose_backend(settings, database))


def homes_options(settings: Settings) -> HomesOptions:
    return HomesOptions(
        settings.homes,
        settings.homes_logical_root,
        settings.home_quota_bytes,
        Retention(timedelta(days=settings.jobs_trash_after_days), timedelta(days=settings.jobs_purge_after_days)),
        quota_files=settings.home_quota_files,
        mount=settings.homes_mount,
    )


def _choose_backend(settings: Settings, database: Database) -> SftpBackend | None:
    host = settings.sftp_known_host or urlsplit(settings.web_url).hostname or settings.sftp_address
    if settings.sftp == "embedded":
        from app.homes.sftp.builtin import BuiltinBackend

        return BuiltinBackend(database, host=host, port=settings.sftp_port)
    if settings.sftp == "sftpgo":
        from app.homes.sftp.sftpgo import SftpgoBackend, SftpgoOptions

        return SftpgoBackend(
            SftpgoOptions(
                settings.sftpgo_url,
                settings.sftpgo_user,
                settings.sftpgo_password.get_secret_value(),
                settings.homes_logical_root,
                host,
                settings.sftp_port,
                settings.sftpgo_api_key.get_secret_value(),
            )
        )
    return None
