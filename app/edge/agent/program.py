"""The agent of this machine as a program: its data folder, its CPUs, its socket, the agent until a signal ends it."""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from app.edge.agent.agent import NodeAgent
from app.edge.agent.allocation import WORK
from app.edge.agent.cameras import Cameras
from app.edge.agent.driver import WorkloadDriver
from app.edge.agent.options import AgentOptions
from app.edge.agent.process import end_orphans
from app.edge.agent.registration import initial_token
from app.edge.agent.server import listen
from app.edge.agent.store import AgentStore
from app.edge.agent.web_client import WebClient
from app.kit.cli.command import CannotStart
from app.kit.files import make_private

PORT = "port"
logger = logging.getLogger(__name__)


async def run_agent(options: AgentOptions, drivers: Sequence[WorkloadDriver], cameras: Cameras) -> None:
    """Run the agent of this machine until a signal ends it.

    Args:
        options: the arguments of `modelmill node`.
        drivers: for the kinds of work that it can run.
        cameras: the same object that the drivers have; the web's orders change it.

    Raises:
        CannotStart: The agent cannot start on this machine, or a subclass says why.
    """
    _take_cpus(options.cpus)
    with _lock(options):
        store = AgentStore(options.data / "agent.db", options.name)
        if store.was_damaged:  # otherwise they would run beside those that the web orders again
            logger.warning("%d workers of before are ended.", end_orphans((options.data / WORK).resolve()))
        web = WebClient(options.cloud, options.name, initial_token(options, store))
        try:
            with listen(options.listen_host, options.listen_port, preferred=int(store.setting(PORT) or 0)) as listening:
                store.remember(PORT, str(listening.getsockname()[1]))
                await NodeAgent(options, drivers, cameras, store, web, listening).run()
        finally:
            await web.close()
            store.close()


@contextmanager
def _lock(options: AgentOptions) -> Iterator[None]:
    """Locks the data folder: one agent per folder.

    Raises:
        CannotStart: Another agent has it.
    """
    with (make_private(options.data) / "agent.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise CannotStart(
                f"another agent runs in {options.data}", hint="End it, or give this one another --data-dir."
            ) from None
        yield


def _take_cpus(cpus: frozenset[int]) -> None:
    """Pins this process, and the workers it starts, to these CPUs.

    Raises:
        CannotStart: They are not available.
    """
    if not cpus:
        return
    try:
        os.sched_setaffinity(0, cpus)
    except OSError as error:
        raise CannotStart(
            f"this machine lacks some of the CPUs {sorted(cpus)}", hint="Give others as --cpus."
        ) from error
