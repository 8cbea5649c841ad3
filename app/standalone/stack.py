"""The parts of a whole stack, and their configuration."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from app.kit.cli.command import CannotStart
from app.kit.files import lasting_key
from app.settings import load_settings, secret_files
from app.standalone.data_folder import DataFolder, Lock
from app.standalone.launch import WEB as WEB_PART
from app.standalone.launch import Launch, Stack, run
from app.standalone.ports import free_port, next_free_port, require_free
from app.standalone.preload import PRELOADED
from app.standalone.process import Call, Part, Role
from app.standalone.process_secrets import environment_of, without_secrets
from app.standalone.processes import CONTROLLER, SCHEDULER, SFTP, STAGES, TRAINING, WEB, WORKERS, ProcessSpec
from app.standalone.supervisor import Notice
from app.standalone.valkey import valkey_part
from app.standalone.valkey_server import Valkey

ROOT = Path(__file__).parents[2]
"""The folder of `app` and `actors`; the parts run there, so that both can be imported."""
HEAP = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_TRIM_THRESHOLD_": "131072",
    "MALLOC_MMAP_THRESHOLD_": "262144",
    "PYTHONNODEBUGRANGES": "1",
}
IDLE_S = 60
"""After this many seconds without work, the loaded toolchains and the SFTP server are released."""


@dataclass(frozen=True)
class Plan:
    """The user's choices."""

    data: DataFolder
    host: str
    port: int
    """0 for any free one."""
    workers: Mapping[str, int]
    """Number of workers by stage."""
    grace_s: float = 10.0


@contextmanager
def open_stack(plan: Plan, notice: Notice) -> Iterator[Stack]:
    """Start everything, yield when the web answers, and stop everything at the end.

    Raises:
        CannotStart: A part does not start.
    """
    lock = locked(plan)
    try:
        launch = launch_of(plan)
    except BaseException:
        lock.release()
        raise
    with run(launch, lock, notice) as stack:
        yield stack


def locked(plan: Plan) -> Lock:
    """Prepares and locks the folder.

    Raises:
        CannotStart: It is not usable, or another stack runs in it.
    """
    plan.data.prepare()
    return Lock(plan.data)


def launch_of(plan: Plan) -> Launch:
    """Returns the launch for a locked folder.

    Raises:
        CannotStart: A setting does not fit.
    """
    port = plan.port or free_port(plan.host)
    require_free(plan.host, port)
    valkey = Valkey.at(free_port())
    sftp_port = _choose_sftp_port(plan)
    environment, files = _build_environment(plan, port, sftp_port, valkey), secret_files()
    started = (valkey_part(valkey, plan.data.run), *parts(plan, port, sftp_port))
    return Launch(
        data=plan.data,
        host=plan.host,
        port=port,
        grace_s=plan.grace_s,
        valkey=valkey,
        parts=started,
        environments={part.name: environment_of(part, environment, files) for part in started},
        modules=PRELOADED,
        parent=_environment_of_parent(environment),
        folder=ROOT,
        before=tuple(_list_sftp_files()),
        training=None if load_settings().ray_address else _make_control(has_training=True),
    )


def parts(plan: Plan, port: int, sftp_port: int | None) -> list[Part]:
    """Returns all parts but Valkey. Each does what the operator's command does, in a forked process."""
    serve = Call("app.cli.up.web_server:serve", {"host": plan.host, "port": port})
    workers = [
        _make_actors(
            f"worker-{number}", [WORKERS[stage] for stage in STAGES if number < plan.workers[stage]], role="worker"
        )
        for number in range(max(plan.workers.values()))
    ]
    web = Part(WEB_PART, tuple(WEB.command), call=serve)
    control = _make_control(has_training=bool(load_settings().ray_address))
    return [web, control, *workers, *_make_sftp(plan, sftp_port)]


def _make_control(*, has_training: bool) -> Part:
    """Returns the part that schedules."""
    processes = [SCHEDULER, CONTROLLER, *([TRAINING] if has_training else [])]
    return _make_actors("control", processes, is_clock=True)


def _make_actors(name: str, processes: list[ProcessSpec], *, is_clock: bool = False, role: Role = "server") -> Part:
    """Returns one process instead of several. Each queue has a separate thread, so none waits for another."""
    queues = [queue.value for process in processes for queue in process.queues]
    call = Call("actors.forked:work", {"queues": queues, "is_clock": is_clock})
    return Part(name, tuple(processes[0].command), role=role, call=call)


def _make_sftp(plan: Plan, port: int | None) -> list[Part]:
    if port is None:
        return []
    where = {"host": load_settings().sftp_host or plan.host, "port": port, "idle_s": IDLE_S}
    return [Part("sftp", tuple(SFTP.command), role="sftp", call=Call("app.cli.up.sftp_server:serve", where))]


def _build_environment(plan: Plan, port: int, sftp_port: int | None, valkey: Valkey) -> dict[str, str]:
    return {
        **os.environ,
        "MODELMILL_DATA_DIR": str(plan.data.root),
        "MODELMILL_RUN_DIR": str(plan.data.run),
        "MODELMILL_REDIS_URL": valkey.url(0),
        "MODELMILL_HOST": plan.host,
        "MODELMILL_PORT": str(port),
        **({} if sftp_port is None else {"MODELMILL_SFTP_PORT": str(sftp_port)}),
        **_choose_secret_key(plan),
        # Ctrl-C ends everything without a grace.
        "MODELMILL_SHUTDOWN_GRACE_S": os.environ.get("MODELMILL_SHUTDOWN_GRACE_S") or "0",
        "MODELMILL_SANDBOX_IDLE_S": os.environ.get("MODELMILL_SANDBOX_IDLE_S") or str(IDLE_S),
        # Files that the person who typed `up` reads.
        "MODELMILL_LOG_FORMAT": os.environ.get("MODELMILL_LOG_FORMAT") or "console",
        "PYTHONUNBUFFERED": "1",
    }


def _environment_of_parent(environment: Mapping[str, str]) -> dict[str, str]:
    """Configures the C library before a process starts: no heap for each thread, and free memory is returned."""
    return {**HEAP, **without_secrets(environment)}


def _choose_sftp_port(plan: Plan) -> int | None:
    """Returns a port for SFTP, since the usual one may be in use, for instance by another installation; None leaves
    SFTPGo's as it is."""
    settings = load_settings()
    if settings.sftp != "embedded":
        return None
    return next_free_port(settings.sftp_host or plan.host, settings.sftp_port)


def _choose_secret_key(plan: Plan) -> dict[str, str]:
    """Returns the folder's own key, unless the settings have one (also in a file), which the parts then read
    themselves."""
    return {} if load_settings().has_lasting_key else {"MODELMILL_SECRET_KEY": lasting_key(plan.data.root)}


def _list_sftp_files() -> Iterator[str]:
    settings = load_settings()
    is_postgres = settings.database.startswith("postgresql://")
    if settings.sftp == "embedded" and is_postgres and not settings.sftp_database_url.get_secret_value():
        yield "The SFTP server holds the password of the database: set MODELMILL_SFTP_DATABASE_URL to spare it."


__all__ = ["CannotStart", "Plan", "Stack", "launch_of", "locked", "open_stack", "parts"]
