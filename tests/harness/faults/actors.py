"""The product's actors for the fault tests: stages do what the job's plan says (see stages), and a process can be
held at the points where it hurts most to die, as long as a file of that name lies in the deployment's `holds` folder. A
point that belongs to a stage may be named with it: `after-take` holds any, `after-take.bie` that one.

What the environment says beyond the settings: CHAOS_PATIENT, whether Redis and silent workers are waited for as long as
in production; CHAOS_SUSPECT_S, how long for silent workers otherwise."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import datetime, tzinfo
from functools import partial, wraps
from pathlib import Path
from typing import Any

from app.kit import clock
from app.kit.queue import blocking_consumer, broker

IS_PATIENT = "CHAOS_PATIENT" in os.environ
if not IS_PATIENT:
    broker.SOCKET_TIMEOUT_S = 2.0  # a stall of Redis is felt the sooner
    blocking_consumer.MAX_BLOCK_S = 1.0  # a quiet queue is no stall

import actors  # noqa: E402
from app.conversion.service import dispatch  # noqa: E402
from app.conversion.stages import runner  # noqa: E402
from app.conversion.stages.job_claimer import JobClaimer  # noqa: E402
from app.conversion.toolchains import libraries  # noqa: E402
from app.kit.redis.connections import ScriptCall  # noqa: E402
from app.kit.sandbox.paths import SandboxPaths  # noqa: E402
from tests.harness.faults.stages import NOTES  # noqa: E402

HOLDS = actors.container.settings.data_dir / "holds"
CLOCKS = actors.container.settings.data_dir / "clocks"
LIGHT = ("app.conversion.stages.child", "tests.harness.faults.stages")
"""What the fork server loads: a worker that is started anew every second needs no library of a real toolchain."""


def held(name: str, call: Callable[..., Any], *, after: bool = False) -> Callable[..., Any]:
    """The call, preceded (or followed) by a halt."""

    @wraps(call)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if not after:
            _halt(name, kwargs.get("step", ""))
        result = call(*args, **kwargs)
        if after:
            _halt(name, kwargs.get("step", ""))
        return result

    return wrapper


def _halt(name: str, step: str) -> None:
    for point in (name, f"{name}.{step}"):
        while (HOLDS / point).exists():
            (HOLDS / f"{point}.reached").touch()
            time.sleep(0.02)


def _named(take: Callable[..., Any]) -> Callable[..., Any]:
    """How a worker comes by a job, saying of which stage it is, as the other calls do."""
    before = held("before-take", lambda **_: None)
    after = held("after-take", lambda **_: None)

    def wrapper(claimer: JobClaimer, job_id: str, work_dir: Path) -> Any:
        before(step=claimer.stage.step)
        result = take(claimer, job_id, work_dir)
        after(step=claimer.stage.step)
        return result

    return wrapper


# --- a wall clock that jumps --------------------------------------------------------------------------
_time = time.time


def _shifted() -> float:
    try:
        return _time() + float((CLOCKS / str(os.getpid())).read_text())
    except FileNotFoundError:
        return _time()


class _Datetime(datetime):
    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
        return datetime.fromtimestamp(_shifted(), tz)


time.time = _shifted
clock.datetime = _Datetime  # type: ignore[misc]
libraries.of_stages = lambda _: LIGHT  # type: ignore[assignment]
if not IS_PATIENT:
    dispatch.SUSPECT_S = int(os.environ.get("CHAOS_SUSPECT_S", "1"))
container: Any = actors.container
runner.CHILD = "tests.harness.faults.stages:run_stage"
NOTED = SandboxPaths(writes=(str(actors.container.settings.data_dir.parent / NOTES),))
runner.StageRunner._build_paths = lambda *_: NOTED  # type: ignore[method-assign]
JobClaimer.take = _named(JobClaimer.take)  # type: ignore[method-assign]
report, finish = container.stages.send_done, container.broker.finish


@partial(held, "before-report")
def _report(on_sent: Callable[[], None], **fields: Any) -> None:
    def halt() -> None:
        _halt("after-report", fields["step"])
        on_sent()

    report(halt, **fields)


def _finish(queue: str, call: ScriptCall, on_reply: Callable[[Any], None]) -> None:
    """Halts a scheduler once Redis has heard what follows from a done message."""

    def halt(reply: Any) -> None:
        if queue == "done":
            _halt("after-taken-in", "")
        on_reply(reply)

    finish(queue, call, halt)


container.stages.send_done = _report
container.broker.finish = _finish
advance = held("after-advance", container.conversion.dispatch.advance, after=True)
container.conversion.dispatch.advance = held("before-advance", advance)
completion = container.conversion.dispatch.completion
completion.prepare = held("before-archive", held("after-archive", completion.prepare, after=True))
completion.settle = held("before-settle", completion.settle)
