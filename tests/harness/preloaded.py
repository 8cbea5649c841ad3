"""Imported by the process of which the tests' programs are copies: loads what they need, and prepares its libraries.

`modelmill up` forks its parts from a process with the same modules. What is in the environment of the tests is none of
its business: each copy gets an environment of its own. Children that they start are copies likewise.
"""

from __future__ import annotations

import os
from importlib import import_module

import typer

from app.cli import main
from app.cli.up.rehearsal import rehearse
from app.conversion.model import Stage
from app.conversion.toolchains.libraries import of_stages
from app.edge.agent import process
from app.kit.process.own_process import freeze_for_fork, without_collector
from app.kit.sandbox import runner
from app.standalone.preload import PRELOADED
from tests.harness import copied_children, forked
from tests.harness.reuse import build_commands_once, share_templates

PROGRAMS = ("app.edge.agent.program", "dramatiq.cli", "tests.harness.agent.program", "uvicorn.main")
CHILDREN = (*of_stages(Stage), *copied_children.COPIED, "asyncssh", "av")
"""What the children of those need."""

for name in [name for name in os.environ if name.startswith("MODELMILL_")]:
    del os.environ[name]
os.environ["OPENBLAS_NUM_THREADS"] = "1"  # a process that forks has one thread
with without_collector():
    for module in (*PRELOADED, *PROGRAMS, *CHILDREN):
        getattr(import_module(module), "rehearse", lambda: None)()
    rehearse()
    build_commands_once()
    typer.main.get_command(main.app)
share_templates()
forked.take_over()
process.spawn = runner.spawn = copied_children.spawn
freeze_for_fork()
