"""Imported by the process that the tests' programs are forked from: it ends with the run, however that ends, and ends
all that it has started."""

from __future__ import annotations

import os
import signal

from app.kit.sandbox import kernel
from tests.harness import processes

PID, RUN = os.getpid(), os.getppid()


def end(*_: object) -> None:
    """Ends everything if the run has ended. The kernel also sends the signal when one of the run's threads ends."""
    if os.getppid() != RUN:
        processes.send(processes.with_descendants([PID]) - {PID}, signal.SIGKILL)
        os._exit(0)


def forget() -> None:
    """In a fork, which this signal ends as any other process."""
    if signal.getsignal(signal.SIGTERM) is end:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


os.register_at_fork(after_in_child=forget)
signal.signal(signal.SIGTERM, end)
kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGTERM)
end()
