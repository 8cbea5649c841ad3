"""Which parts make a whole stack, what each is told, and when it is up."""

from __future__ import annotations

import http.client
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from app.kit.cli.command import CannotStart
from app.kit.network.addresses import reachable_host, reachable_url
from app.settings import load_settings, secret_files
from app.standalone.data_folder import DataFolder, Lock
from app.standalone.ports import free_port, next_free_port, require_free
from app.standalone.process import Part, tail
from app.standalone.process_secrets import environment_of
from app.standalone.processes import CONTROLLER, PULSE, SCHEDULER, SFTP, TRAINING, WEB, WORKERS, ProcessSpec
from app.standalone.supervisor import Notice, Supervisor
from app.standalone.valkey import Valkey

ROOT = Path(__file__).parents[2]
"""Where `app` and `actors` lie; the parts run there so that both can be imported."""
VALKEY_S = 10.0
READY_S = 60.0
POLL_S = 0.02
TOO_OFTEN = 3
"""So many ends in a row before the web ever answered mean that it never will."""
OnSupervisor = Callable[[Supervisor], None]


@dataclass(frozen=True)
class Plan:
    """What the user chose. workers: stage → number of worker processes. port 0: any that is free."""

    data: DataFolder
    host: str
    port: int
    workers: Mapping[str, int]
    grace_s: float = 10.0


@dataclass(frozen=True)
class Stack:
    """A stack that is up. url: of its web, as reached from this machine."""

    url: str
    supervisor: Supervisor
    data: DataFolder


@contextmanager
def running(plan: Plan, notice: Notice, on_supervisor: OnSupervisor = lambda _: None) -> Iterator[Stack]:
    """Start everything, hand over when the web answers, stop everything. Raises CannotStart.

    on_supervisor gets the supervisor before the first process starts.
    """
    plan.data.prepare()
    lock = Lock(plan.data)
    try:
        port = plan.port or free_port(plan.host)
        require_free(plan.host, port)
        valkey = Valkey.at(free_port())
        environment = _environment(plan, port, valkey)
        files = secret_files()
        supervisor = Supervisor(
            plan.data, lambda part: environment_of(part, environment, files), cwd=ROOT, notice=notice
        )
        on_supervisor(supervisor)
        try:
            url = reachable_url(plan.host, port)
            lock.write({"pid": os.getpid(), "url": url})
            supervisor.start([valkey.part(plan.data.run)])
            _require_valkey(valkey, supervisor)
            supervisor.start(parts(plan, port))
            _say_what_sftp_holds(notice)
            _wait_for_web(plan.host, port, supervisor)
            yield Stack(url, supervisor, plan.data)
        finally:
            supervisor.stop(plan.grace_s)
    finally:
        lock.release()


def parts(plan: Plan, port: int) -> list[Part]:
    """All parts but Valkey, as an operator would type them."""
    web = (
        sys.executable,
        "-m",
        *WEB.command,
        "--host",
        plan.host,
        "--port",
        str(port),
        "--timeout-graceful-shutdown",
        "5",
        "--no-access-log",
    )
    workers = [
        Part(f"{stage}-{number}", _command(worker), role="worker")
        for stage, worker in WORKERS.items()
        for number in range(plan.workers[stage])
    ]
    pulse = Part("periodiq", _command(PULSE), role="worker")
    further = [Part("controller", _command(CONTROLLER)), *_sftp(), *_training()]
    return [Part("web", web), Part("scheduler", _command(SCHEDULER)), *workers, pulse, *further]


def _sftp() -> list[Part]:
    is_ours = load_settings().sftp == "embedded"
    return [Part("sftp", (sys.executable, "-m", "app.cli.main", *SFTP.arguments), role="sftp")] if is_ours else []


def _training() -> list[Part]:
    return [Part("training", _command(TRAINING))] if load_settings().ray_address else []


def _command(process: ProcessSpec) -> tuple[str, ...]:
    return (_script(process.program), *process.arguments)


def _script(name: str) -> str:
    """The command that was installed beside this interpreter."""
    path = Path(sys.executable).parent / name
    if not path.exists():
        raise CannotStart(f"{path} is missing", hint="Install the pinned requirements again: ops/quickstart does it.")
    return str(path)


def _environment(plan: Plan, port: int, valkey: Valkey) -> dict[str, str]:
    return {
        **os.environ,
        "MODELMILL_DATA_DIR": str(plan.data.root),
        "MODELMILL_RUN_DIR": str(plan.data.run),
        "MODELMILL_REDIS_URL": valkey.url(0),
        "MODELMILL_HOST": plan.host,
        "MODELMILL_PORT": str(port),
        **_sftp_port(plan),
        **_secret_key(plan),
        # Ctrl-C means now.
        "MODELMILL_SHUTDOWN_GRACE_S": os.environ.get("MODELMILL_SHUTDOWN_GRACE_S") or "0",
        # Files that the person who typed `up` reads.
        "MODELMILL_LOG_FORMAT": os.environ.get("MODELMILL_LOG_FORMAT") or "console",
        "PYTHONUNBUFFERED": "1",
    }


def _sftp_port(plan: Plan) -> dict[str, str]:
    """The usual one may be taken, by another installation of ours for one. SFTPGo's stays as it is."""
    settings = load_settings()
    if settings.sftp != "embedded":
        return {}
    return {"MODELMILL_SFTP_PORT": str(next_free_port(settings.sftp_host or plan.host, settings.sftp_port))}


def _secret_key(plan: Plan) -> dict[str, str]:
    """The folder's own, unless the settings have one (also in a file): the parts then find it as we did."""
    return {} if load_settings().has_lasting_key else {"MODELMILL_SECRET_KEY": plan.data.secret_key()}


def _say_what_sftp_holds(notice: Notice) -> None:
    settings = load_settings()
    is_postgres = settings.database.startswith("postgresql://")
    if settings.sftp == "embedded" and is_postgres and not settings.sftp_database_url.get_secret_value():
        notice("The SFTP server holds the password of the database: set MODELMILL_SFTP_DATABASE_URL to spare it.")


def _require_valkey(valkey: Valkey, supervisor: Supervisor) -> None:
    if not valkey.wait(VALKEY_S):
        raise CannotStart(f"Valkey did not start. {_last_words(supervisor, 'valkey')}")


def _wait_for_web(host: str, port: int, supervisor: Supervisor) -> None:
    deadline = time.monotonic() + READY_S
    while not _is_healthy(host, port):
        if supervisor.watched["web"].failures >= TOO_OFTEN or time.monotonic() > deadline:
            raise CannotStart(f"the web did not start. {_last_words(supervisor, 'web')}")
        time.sleep(POLL_S)


def _is_healthy(host: str, port: int) -> bool:
    connection = http.client.HTTPConnection(reachable_host(host), port, timeout=5)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _last_words(supervisor: Supervisor, name: str) -> str:
    log = supervisor.watched[name].log
    return f"The end of {log}:\n{tail(log)}"
