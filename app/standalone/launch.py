"""A stack as data: `modelmill up` computes it with all the libraries that this needs, and then runs it without them.
This module and its imports use only the standard library, so the permanent process stays small."""

from __future__ import annotations

import dataclasses
import json
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from app.kit.cli.command import CannotStart
from app.kit.network.addresses import reachable_host, reachable_url
from app.kit.text.json_values import JsonObject
from app.standalone.data_folder import DataFolder, Lock
from app.standalone.local_ray import LocalRay
from app.standalone.process import Call, Parent, Part, tail
from app.standalone.supervisor import Notice, Supervisor
from app.standalone.valkey_server import Valkey

VALKEY_S = 10.0
READY_S = 60.0
POLL_S = 0.02
TOO_OFTEN = 3
"""After this many consecutive ends before the web's first answer, starting is given up."""
REQUEST = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
WEB = "web"
TRAINING_SIGNAL = signal.SIGUSR1
"""Tells the process that runs the launch to start training."""
OnSupervisor = Callable[[Supervisor], None]


@dataclass(frozen=True)
class Launch:
    """What to start, and with which environment."""

    data: DataFolder
    host: str
    port: int
    grace_s: float
    valkey: Valkey
    """The server that is started before the parts."""
    parts: tuple[Part, ...]
    environments: Mapping[str, Mapping[str, str]]
    """By the name of a part."""
    modules: tuple[str, ...]
    """Modules that the parent process of the parts imports."""
    parent: Mapping[str, str]
    """The environment of that process."""
    folder: Path
    """The working directory of the parts."""
    before: tuple[str, ...] = ()
    """Sentences for the user before the web answers."""
    after: tuple[str, ...] = ()
    """Sentences for the user once it answers."""
    token: str = ""
    """Token of that user, for the sample."""
    training: Part | None = None
    """The part `control` if it also schedules training; None if the settings name a Ray cluster, so it does already."""

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), default=str)

    @staticmethod
    def from_json(text: str) -> Launch:
        data: JsonObject = json.loads(text)
        return Launch(
            **data
            | {
                "data": DataFolder(Path(data["data"]["root"]), Path(data["data"]["run"])),
                "valkey": Valkey(**data["valkey"]),
                "parts": tuple(_make_part(part) for part in data["parts"]),
                "training": _make_part(data["training"]) if data["training"] else None,
                "modules": tuple(data["modules"]),
                "before": tuple(data["before"]),
                "after": tuple(data["after"]),
                "folder": Path(data["folder"]),
            }
        )


class Stack:
    """A running stack.

    Args:
        environments: of the parts, by name; changed when training starts.
    """

    def __init__(self, launch: Launch, supervisor: Supervisor, environments: dict[str, Mapping[str, str]]) -> None:
        self.url = reachable_url(launch.host, launch.port)
        """URL of its web, as reached from this machine."""
        self.supervisor = supervisor
        self.data = launch.data
        self._launch, self._environments = launch, environments
        self._ray: LocalRay | None = None

    def start_training(self) -> None:
        """Start a Ray cluster on this machine, and restart the parts that work with it. Does nothing if the stack has
        one already."""
        parts = self.training_parts()
        if parts:
            web = [part for part in self._launch.parts if part.name == WEB]
            self.supervisor.replace([*parts, *web], self._launch.grace_s)

    def training_parts(self) -> list[Part]:
        """Prepares a Ray cluster.

        Returns:
            The parts that start it, and the one that schedules training; none if the stack has a cluster already.
        """
        control = self._launch.training
        if control is None or self._ray is not None:
            return []
        ray = self._ray = LocalRay.create()
        for name in (WEB, control.name):
            self._environments[name] = {**self._environments[name], **ray.settings}
        nodes = ray.parts()
        self._environments.update({node.name: ray.environment(self._launch.parent) for node in nodes})
        return [*nodes, control]

    def close(self) -> None:
        """Removes the files of its Ray cluster, after all parts have ended."""
        if self._ray is not None:
            self._ray.remove()


@contextmanager
def run(
    launch: Launch,
    lock: Lock,
    notice: Notice,
    on_supervisor: OnSupervisor = lambda _: None,
    parent: tuple[int, socket.socket] | None = None,
    *,
    has_training: bool = False,
) -> Iterator[Stack]:
    """Start everything, hand over when the web answers, stop everything.

    Args:
        lock: held as long as this runs.
        notice: told what its user should read.
        on_supervisor: gets the supervisor before the first process starts.
        parent: pid and socket of the process that parts are forked from, if there is one already; None: one is
            started.
        has_training: start a Ray cluster on this machine, too.

    Raises:
        CannotStart: A part ends or does not answer.
    """
    environments = dict(launch.environments)
    forked_from = Parent(launch.modules, launch.parent, launch.folder, launch.data.new_log("parent"))

    def environment_of(part: Part) -> Mapping[str, str]:
        """Returns no secrets for a part that is started in addition to those of the launch, such as a demonstration's
        node."""
        return environments.get(part.name, launch.parent)

    supervisor = Supervisor(launch.data, environment_of, cwd=launch.folder, notice=notice, parent=forked_from)
    on_supervisor(supervisor)
    stack = Stack(launch, supervisor, environments)
    try:
        lock.write({"pid": lock.pid, "url": stack.url})
        if parent is not None:
            forked_from.adopt(*parent)
        forked_from.start()
        parts = {part.name: part for part in (*launch.parts, *(stack.training_parts() if has_training else ()))}
        last = [part for part in parts.values() if part.is_last]
        supervisor.start(last)
        _require_valkey(launch.valkey, supervisor)
        _start(supervisor, [part for part in parts.values() if part not in last])
        for note in launch.before:
            notice(note)
        _wait_for_web(launch, supervisor)
        yield stack
    finally:
        supervisor.stop(launch.grace_s)
        stack.close()
        lock.release()


def _make_part(data: JsonObject) -> Part:
    call = Call(**data["call"]) if data["call"] else None
    return Part(**data | {"command": tuple(data["command"]), "call": call})


def _start(supervisor: Supervisor, parts: list[Part]) -> None:
    try:
        supervisor.start(parts)
    except OSError as error:
        raise CannotStart(f"the parts did not start: {error}") from error


def _require_valkey(valkey: Valkey, supervisor: Supervisor) -> None:
    if not valkey.wait(VALKEY_S):
        raise CannotStart(f"Valkey did not start. {_read_last_words(supervisor, 'valkey')}")


def _wait_for_web(launch: Launch, supervisor: Supervisor) -> None:
    deadline = time.monotonic() + READY_S
    while not _is_healthy(launch.host, launch.port):
        if supervisor.watched[WEB].failures >= TOO_OFTEN or time.monotonic() > deadline:
            raise CannotStart(f"the web did not start. {_read_last_words(supervisor, WEB)}")
        time.sleep(POLL_S)


def _is_healthy(host: str, port: int) -> bool:
    """Asks over a plain socket, since an HTTP client would load OpenSSL and more memory than the rest of this
    process."""
    try:
        with socket.create_connection((reachable_host(host), port), timeout=5) as connection:
            connection.sendall(REQUEST)
            with connection.makefile("rb") as answer:
                return answer.readline().split()[1:2] == [b"200"]
    except OSError:
        return False


def _read_last_words(supervisor: Supervisor, name: str) -> str:
    log = supervisor.watched[name].log
    return f"The end of {log}:\n{tail(log)}"
