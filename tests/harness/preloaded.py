"""Imported by the process of which the tests' programs are copies: loads what they need, and prepares its libraries.

`modelmill up` forks its parts from a process with the same modules. What is in the environment of the tests is none of
its business: each copy gets an environment of its own.
"""

from __future__ import annotations

import os
from importlib import import_module

from app.cli.up.rehearsal import rehearse
from app.kit.process.own_process import freeze_for_fork
from app.standalone.preload import PRELOADED

PROGRAMS = ("app.cli.main", "app.edge.agent.program", "dramatiq.cli", "tests.harness.agent.program", "uvicorn.main")

for name in [name for name in os.environ if name.startswith("MODELMILL_")]:
    del os.environ[name]
for module in (*PRELOADED, *PROGRAMS):
    import_module(module)
rehearse()
freeze_for_fork()
