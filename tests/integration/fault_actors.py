"""The product's actors for the fault tests: stages do what the job's plan says (see fault_stages), and a process can be
held at the points where it hurts most to die, as long as a file of that name lies in the stand's `holds` folder."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import wraps
from typing import Any

from app.kit import broker

broker.SOCKET_TIMEOUT_S = 2.0  # a stall of Redis is felt the sooner

import actors  # noqa: E402
from app.conversion.service import dispatch  # noqa: E402
from app.conversion.stages import runner  # noqa: E402

HOLDS = actors.parts.settings.data_dir / "holds"


def held(name: str, call: Callable[..., Any], *, after: bool = False) -> Callable[..., Any]:
    """The call, preceded (or followed) by a halt."""

    @wraps(call)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if not after:
            _halt(name)
        found = call(*args, **kwargs)
        if after:
            _halt(name)
        return found

    return wrapper


def _halt(name: str) -> None:
    while (HOLDS / name).exists():
        (HOLDS / f"{name}.reached").touch()
        time.sleep(0.02)


parts: Any = actors.parts
runner.CHILD = "tests.integration.fault_stages:run_stage"
dispatch.SUSPECT_S = 1
parts.store.claim = held("before-claim", held("after-claim", parts.store.claim, after=True))
parts.conversion.dispatch.advance = held("before-advance", parts.conversion.dispatch.advance)
parts.conversion.dispatch.enqueue = held("before-enqueue", parts.conversion.dispatch.enqueue)
