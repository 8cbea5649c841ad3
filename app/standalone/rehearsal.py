"""Puts an installation together once and lets it go, in the process that `modelmill up` forks its parts from."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from pydantic import SecretStr

from app.bootstrap.container import assemble
from app.bootstrap.encryption import encrypt_secrets
from app.kit.sql import metadata
from app.main import declared
from app.settings import Settings

PARTS = ("joint", "video", "training", "nodes", "models", "notifications", "sweeps", "exchange", "packs")
"""Of the container, that actors or the web read."""


def rehearse() -> None:
    """Put an installation together, use its database and let both go. Libraries prepare themselves when they are first
    used, and each part would keep a copy of that. The settings are none that a part has."""
    declared()
    with TemporaryDirectory() as folder:
        container = assemble(Settings(data_dir=Path(folder), database_url=SecretStr(f"sqlite:///{folder}/database")))
        with container.database.write() as connection:
            metadata.create_all(connection)
        encrypt_secrets(container.accounts)
        container.accounts.users.has_admin()
        for part in PARTS:
            getattr(container, part)
        container.close()
