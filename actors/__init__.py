"""The functions that Dramatiq runs: `dramatiq actors --queues bie --processes 1 --threads 1`. Thin: a decorator, then
one call.

Importing this package sets the broker and declares every actor, in the modules that the capabilities name; the
operator's --queues select those that a process runs.
"""

from importlib import import_module

from actors.process import container, life
from app.bootstrap.capabilities import CAPABILITIES

for capability in CAPABILITIES:
    for module in capability.actors:
        import_module(module)

__all__ = ["container", "life"]
