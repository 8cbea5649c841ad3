"""What the parts of `modelmill up` are forked with: modules that most of them use, and none that is a toolchain's."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from pydantic import SecretStr

PRELOADED = (
    "app.main",
    "anyio._backends._asyncio",
    "app.cli.sftp",
    "app.standalone.web_server",
    "app.bootstrap.accounts",
    "app.bootstrap.events",
    "app.bootstrap.homes",
    "app.bootstrap.joint_inference",
    "app.bootstrap.nodes",
    "app.bootstrap.training",
    "app.bootstrap.video",
    "app.conversion.stages",
    "app.conversion.toolchains.installed",
    "app.homes.sftp.builtin.server",
    "app.kit.objects.filesystem",
    "dramatiq.worker",
    "periodiq",
    "uvicorn.lifespan.on",
    "uvicorn.loops.uvloop",
    "uvicorn.protocols.http.httptools_impl",
    "sqlalchemy.dialects.sqlite",
    "app.standalone.preload",
)


def rehearse() -> None:
    """Put an installation together, use its database and let both go. Libraries prepare themselves when they are first
    used, and each part would keep a copy of that. The settings are none that a part has."""
    from app.bootstrap.capabilities import CAPABILITIES
    from app.bootstrap.container import assemble
    from app.bootstrap.encryption import encrypt_secrets
    from app.kit.sql import metadata
    from app.settings import Settings

    for capability in CAPABILITIES:
        capability.web()
    with TemporaryDirectory() as folder:
        container = assemble(Settings(data_dir=Path(folder), database_url=SecretStr(f"sqlite:///{folder}/database")))
        with container.database.write() as connection:
            metadata.create_all(connection)
        encrypt_secrets(container.accounts)
        container.accounts.users.has_admin()
        assert container.joint is not None and container.video is not None and container.training is not None
        container.close()
