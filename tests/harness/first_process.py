"""Imported by the process of which the tests' programs are copies: it ends with the run, however that ends, and takes
along what it has started."""

from __future__ import annotations

import os
import signal

from app.kit.sandbox import kernel
from tests.harness import processes

PID, RUN = os.getpid(), os.getppid()


def end(*_: object) -> None:
    """Upon the end of the process that runs the tests. That of one of its threads, too, makes the kernel call this."""
    if os.getppid() != RUN:
        processes.send(processes.with_descendants([PID]) - {PID}, signal.SIGKILL)
        os._exit(0)


def forget() -> None:
    """In a copy, which ends by this signal as any other process."""
    if signal.getsignal(signal.SIGTERM) is end:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


os.register_at_fork(after_in_child=forget)
signal.signal(signal.SIGTERM, end)
kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGTERM)
end()
