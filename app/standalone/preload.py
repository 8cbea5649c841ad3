"""Modules with which the parts of `modelmill up` are forked: those that most parts use, and none of a toolchain."""

from __future__ import annotations

PRELOADED = (
    "app.main",
    "anyio._backends._asyncio",
    "app.cli.up.sftp_server",
    "app.cli.up.web_server",
    "app.bootstrap.accounts",
    "app.bootstrap.events",
    "app.bootstrap.homes",
    "app.bootstrap.joint_inference",
    "app.bootstrap.nodes",
    "app.bootstrap.training",
    "app.bootstrap.video",
    "app.conversion.stages.runner",
    "app.conversion.toolchains.installed",
    "app.kit.objects.filesystem",
    "dramatiq.worker",
    "periodiq",
    "uvicorn.lifespan.on",
    "uvicorn.loops.uvloop",
    "uvicorn.protocols.http.httptools_impl",
    "sqlalchemy.dialects.sqlite",
    "app.cli.up.rehearsal",
)
"""The last one prepares libraries: see its module."""
