"""Puts the embedded SFTP server together."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from app.bootstrap.accounts import MIGRATIONS
from app.bootstrap.homes import homes_options
from app.homes.sftp.builtin.server import ServerOptions, serve
from app.kit.cli.command import CannotStart
from app.kit.observability import logs
from app.kit.sql import Database
from app.kit.sql.migrations import require_current, upgrade
from app.settings import load_settings


def serve_homes(sockets: Sequence[socket.socket] = (), unused_s: float | None = None) -> bool:
    """Runs until it is told to end.

    Args:
        sockets: listening sockets; by default those of the settings.
        unused_s: also ends if nobody was connected for this many seconds; None: never.

    Returns:
        Whether it has ended because nobody used it.
    """
    settings = load_settings()
    if settings.sftp != "embedded":
        raise CannotStart(
            f"SFTP is {settings.sftp} here, not embedded", hint="Set MODELMILL_SFTP=embedded, or do not run this."
        )
    logs.configure(settings.log_format, settings.log_level)
    own_url = settings.sftp_database_url.get_secret_value()
    database = Database(own_url or settings.database)
    try:
        if own_url:  # an account of few rights, which changes no tables
            require_current(database, MIGRATIONS)
        else:
            upgrade(database, MIGRATIONS)
        return serve(
            database,
            homes_options(settings),
            ServerOptions(
                settings.sftp_address,
                settings.sftp_port,
                settings.data_dir / "sftp",
                settings.sftp_idle_s,
                tuple(sockets),
                unused_s,
            ),
        )
    finally:
        database.close()
