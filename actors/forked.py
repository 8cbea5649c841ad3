"""A worker in a process that was forked for it: what `dramatiq actors …` and `periodiq actors` do, without a process
that only watches another one. `modelmill up` watches it itself."""

from __future__ import annotations

import signal
from types import FrameType
from typing import NoReturn

from dramatiq.common import q_name
from dramatiq.worker import Worker

from app.kit.process import own_process
from app.kit.queue.messages import DELAYED

KILLED = 3
"""Dramatiq's exit code for a worker that was told to end a second time."""


AT_ONCE = 2
"""Threads for each queue whose messages may take long."""


class QueueWorker(Worker):
    """Waits for delayed messages only where there are any: each wait is a thread and a connection. The thread that
    waits for a queue works on its messages (inline_worker): Dramatiq's own threads are left for the rest."""

    def _add_consumer(self, queue_name: str, *, delay: bool = False) -> None:
        if not delay or q_name(queue_name) in DELAYED:
            super()._add_consumer(queue_name, delay=delay)

    def _add_worker(self) -> None:
        if len(self.workers) < max(1, AT_ONCE * len(DELAYED.intersection(self.consumer_whitelist or ()))):
            super()._add_worker()


class Ended(BaseException):
    """The process is told to end: whatever its main thread waits for, it waits no longer."""


def work(queues: list[str], is_clock: bool = False) -> None:
    """Run the messages of these queues until SIGTERM; a second one ends the process at once.

    Args:
        queues: each has a thread to itself.
        is_clock: send what is due by the clock, too.
    """
    is_ending = False

    def tell(_number: int, _frame: FrameType | None) -> None:
        nonlocal is_ending
        if is_ending:
            raise SystemExit(KILLED)
        is_ending = True
        raise Ended

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    from actors import container

    broker = container.broker
    broker.emit_after("process_boot")
    worker = QueueWorker(broker, queues=set(queues), worker_threads=len(queues))
    try:
        signal.signal(signal.SIGTERM, tell)
        worker.start()
        own_process.give_back_later()
        if is_clock:
            _send_what_is_due()
        while True:
            signal.pause()
    except Ended:
        worker.stop()
        broker.close()


def _send_what_is_due() -> NoReturn:
    """As `periodiq actors` does, in the main thread, which has nothing else to do."""
    import periodiq

    raise SystemExit(periodiq.main(periodiq.make_argument_parser().parse_args(["actors"])))
