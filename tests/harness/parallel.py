"""Runs the tests in several processes, which are copies of the one that has collected them: `pytest --processes 4`.

A plugin of pytest. (The workers of pytest-xdist import and collect all tests each, for most of a minute of CPU time.)
Groups of tests (`tests/harness/durations.py`) are handed out whole, in the order of the collection, but that few of the
processes begin what is dear and stays until their end; what is reported is told as if the tests had run here.
"""

from __future__ import annotations

import os
import signal
import sys
from collections import deque
from contextlib import suppress
from itertools import groupby
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any
from warnings import WarningMessage

import pytest
from _pytest._io import TerminalWriter

from tests.harness.durations import group_of

WORKER = "PYTEST_XDIST_WORKER"
"""As pytest-xdist names it, for what goes by that: which of the processes of a run this is."""
DEAR = frozenset({"service", "shared"})
"""Fixtures of a session that are whole deployments: a quarter of the processes is enough for all tests with one."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--processes", type=int, default=1, metavar="N", help="run the tests in so many processes")


class Terminated(KeyboardInterrupt):
    """SIGTERM ends a run as Ctrl-C does: what the tests have started is ended, too."""


def take_terminations() -> None:
    """In this process, and not in those that tests fork."""
    process = os.getpid()

    def obey(number: int, _: object) -> None:
        signal.signal(number, signal.SIG_DFL)  # a second one ends it at once
        if os.getpid() != process:
            os.kill(os.getpid(), number)
        raise Terminated

    signal.signal(signal.SIGTERM, obey)


def pytest_configure(config: pytest.Config) -> None:
    take_terminations()
    count = config.getoption("--processes")
    if count > 1 and not config.option.collectonly and not config.option.usepdb:
        config.pluginmanager.register(Processes(count), "processes")


class Worker:
    """What is known of a process that runs tests, in the one that began it."""

    def __init__(self, name: str, pid: int, connection: Connection) -> None:
        self.name = name
        self.connection = connection
        self.places: list[int] = []
        """Of the tests that it has yet to end, in the collection."""
        self.running: int | None = None
        self.begun: frozenset[str] = frozenset()
        """What it has of DEAR."""
        self.descriptor = os.pidfd_open(pid)
        self._pid = pid

    def end(self) -> int:
        """Waits for its end. Returns its exit code, or the negative number of the signal that ended it."""
        _, status = os.waitpid(self._pid, 0)
        os.close(self.descriptor)
        self.connection.close()
        return os.waitstatus_to_exitcode(status)


class Processes:
    """In the process that has collected: begins the others, hands out groups, and tells what they report."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._begun = 0
        self._workers: list[Worker] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if session.testsfailed and not session.config.option.continue_on_collection_errors:
            return None  # pytest's own loop says so
        groups = deque(
            list(places)
            for _, places in groupby(range(len(session.items)), lambda place: group_of(session.items[place].nodeid))
        )
        self._folder = session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        try:
            loop = self._hand_out(session, groups)
            if loop is not None:
                return loop.run()
        except Terminated:
            for worker in self._workers:
                signal.pidfd_send_signal(worker.descriptor, signal.SIGTERM)
            raise
        finally:
            for worker in self._workers:
                worker.connection.close()  # so that it ends after the test that it runs
            for worker in self._workers:
                worker.end()
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
        return True

    def _hand_out(self, session: pytest.Session, groups: deque[list[int]]) -> WorkerLoop | None:
        """Until all is done, or the run is to stop; returns at once in each new process, with its loop."""
        while not session.shouldfail and not session.shouldstop:
            if groups and len(self._workers) < self._count:
                loop = self._begin(session)
                if loop is not None:
                    return loop
            elif self._workers:
                self._hear(session, groups)
            else:
                break
        return None

    def _begin(self, session: pytest.Session) -> WorkerLoop | None:
        """Another process; returns in both, and in the new one its loop."""
        name = f"gw{self._begun}"
        self._begun += 1
        ours, theirs = Pipe()
        for stream in (sys.stdout, sys.stderr, session.config.pluginmanager.get_plugin("terminalreporter")):
            if stream is not None:
                stream.flush()  # what is not written yet would be written by both
        pid = os.fork()
        if pid:
            theirs.close()
            self._workers.append(Worker(name, pid, ours))
            return None
        ours.close()
        for worker in self._workers:
            worker.connection.close()
            os.close(worker.descriptor)
        self._workers.clear()
        return WorkerLoop(session, name, theirs, self._folder / name)

    def _hear(self, session: pytest.Session, groups: deque[list[int]]) -> None:
        connections = [worker.connection for worker in self._workers]
        ready = wait([*connections, *(worker.descriptor for worker in self._workers)])
        for worker in list(self._workers):
            if worker.connection in ready:
                try:
                    kind, content = worker.connection.recv()
                except (EOFError, ConnectionResetError):
                    self._end(session, worker, groups)
                else:
                    self._take(session, worker, groups, kind, content)
            elif worker.descriptor in ready:  # a process of a test may still hold the other end of its connection
                self._end(session, worker, groups)

    def _take(self, session: pytest.Session, worker: Worker, groups: deque[list[int]], kind: str, content: Any) -> None:
        hook = session.config.hook
        match kind:
            case "next":
                group = self._choose(session, worker, groups) if groups else None
                worker.places += group or []
                with suppress(ConnectionError):  # its end is heard next
                    worker.connection.send(group)
            case "begins":
                worker.running = content
            case "report":
                report = hook.pytest_report_from_serializable(config=session.config, data=content)
                hook.pytest_runtest_logreport(report=report)
            case "warning":
                message, category, filename, line, about = content
                warning = WarningMessage(message, category, filename, line)
                hook.pytest_warning_recorded.call_historic(kwargs={"warning_message": warning, **about})
            case "ends":
                worker.running = None
                worker.places.remove(content)
                item = session.items[content]
                hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)

    def _choose(self, session: pytest.Session, worker: Worker, groups: deque[list[int]]) -> list[int]:
        """The first group for which the process begins nothing dear that enough others have; else the first."""
        others = [name for other in self._workers if other is not worker for name in other.begun]
        closed = {name for name in DEAR - worker.begun if others.count(name) >= max(1, self._count // 4)}
        open_to_it = (group for group in groups if not closed or closed.isdisjoint(_dear_of(session, group)))
        group = next(open_to_it, groups[0])
        groups.remove(group)
        worker.begun |= _dear_of(session, group)
        return group

    def _end(self, session: pytest.Session, worker: Worker, groups: deque[list[int]]) -> None:
        """One that ends while it runs a test has failed it; what was to come after that is run by another."""
        code = worker.end()
        self._workers.remove(worker)
        if worker.running is None:
            if worker.places:
                raise RuntimeError(f"{worker.name} ended with {code}, and was to run tests")
            return
        item = session.items[worker.running]
        text = f"{worker.name}, the process that ran it, ended with {code}"
        report = pytest.TestReport(item.nodeid, item.location, {}, "failed", text, "call")
        session.config.hook.pytest_runtest_logreport(report=report)
        rest = [place for place in worker.places if place != worker.running]
        if rest:
            groups.appendleft(rest)


def _dear_of(session: pytest.Session, group: list[int]) -> frozenset[str]:
    names = (name for place in group for name in getattr(session.items[place], "fixturenames", ()))
    return DEAR.intersection(names)


class WorkerLoop:
    """In a process that runs tests: it is no terminal's, and has a folder and captured output of its own."""

    def __init__(self, session: pytest.Session, name: str, connection: Connection, folder: Path) -> None:
        self._session = session
        self._connection = connection
        self._places: deque[int] = deque()
        os.environ[WORKER] = name
        take_terminations()
        config: Any = session.config
        config.workerinput = {"workerid": name}  # by this plugins know that the results are not theirs to keep
        plugins = config.pluginmanager
        terminal = plugins.unregister(name="terminalreporter")
        if terminal is not None:
            terminal._show_progress_info = False  # that of the whole run, at the end of the loop
            config.get_terminal_writer = lambda: TerminalWriter(sys.stderr)  # of a test that is ended for its time
        capture = plugins.get_plugin("capturemanager")
        capture.stop_global_capturing()  # its files are shared with the other processes, and their positions
        capture.start_global_capturing()
        capture.suspend_global_capture()
        folder.mkdir()
        config._tmp_path_factory._basetemp = folder
        self._is_running = False
        plugins.register(self, "worker-loop")

    def run(self) -> bool:
        self._is_running = True
        items, session = self._session.items, self._session
        place = self._next()
        while place is not None and not session.shouldfail and not session.shouldstop:
            following = self._next()
            self._send("begins", place)
            after = None if following is None else items[following]
            session.config.hook.pytest_runtest_protocol(item=items[place], nextitem=after)
            self._send("ends", place)
            place = following
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        hook = self._session.config.hook
        self._send("report", hook.pytest_report_to_serializable(config=self._session.config, report=report))

    def pytest_warning_recorded(
        self, warning_message: WarningMessage, when: str, nodeid: str, location: tuple[str, int, str] | None
    ) -> None:
        if self._is_running:  # pytest repeats those from before this process began, which are told already
            about = {"when": when, "nodeid": nodeid, "location": location}
            text, category = str(warning_message.message), warning_message.category
            self._send("warning", (text, category, warning_message.filename, warning_message.lineno, about))

    def _next(self) -> int | None:
        """Known one ahead, for what the following test shares with one is left standing at its end."""
        if not self._places:
            self._send("next", None)
            with suppress(EOFError, ConnectionError):
                self._places.extend(self._connection.recv() or [])
        return self._places.popleft() if self._places else None

    def _send(self, kind: str, content: Any) -> None:
        try:
            self._connection.send((kind, content))
        except ConnectionError:
            self._session.shouldstop = "nobody hears of the tests any more"
