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
    "app.homes.sftp.builtin.server",
    "dramatiq.worker",
    "periodiq",
    "sqlalchemy.dialects.sqlite",
)
