"""What the parts of `modelmill up` are forked with: modules that most of them use, and none that is a toolchain's."""

from __future__ import annotations

PRELOADED = (
    "app.main",
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
    "sqlalchemy.dialects.sqlite",
    "app.standalone.preload",
)


def rehearse() -> None:
    """Put an installation together and let it go. Libraries prepare themselves when they are first used, and each part
    would keep a copy of that. Nothing is connected to, and the settings are none that a part has."""
    from app.bootstrap.container import assemble
    from app.settings import Settings

    assemble(Settings()).close()
