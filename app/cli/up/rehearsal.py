"""Assembles an installation once and discards it, in the process from which `modelmill up` forks its parts."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from pydantic import SecretStr

from app.bootstrap.container import assemble
from app.bootstrap.encryption import encrypt_secrets
from app.kit.sql import metadata
from app.main import collect_declarations
from app.settings import Settings

PARTS = ("joint", "video", "training", "nodes", "models", "notifications", "sweeps", "exchange", "packs")
"""Properties of the container that actors or the web read."""


def rehearse() -> None:
    """Assemble an installation, use its database and discard both. Libraries prepare themselves at their first use, and
    each part would have a copy of that. No part has these settings."""
    collect_declarations()
    with TemporaryDirectory() as folder:
        container = assemble(Settings(data_dir=Path(folder), database_url=SecretStr(f"sqlite:///{folder}/database")))
        with container.database.write() as connection:
            metadata.create_all(connection)
        encrypt_secrets(container.accounts)
        container.accounts.users.has_admin()
        for part in PARTS:
            getattr(container, part)
        container.close()
