"""Ray on this machine, for `modelmill up` beside it: a head that runs no programs, and one worker. See ops/ray-local.

Each node is left behind under a subreaper (app.standalone.subreaper), which ends all of the node when it is asked to,
and when the node ends by itself. `ray stop`, which ends every Ray of the machine, is never used.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from app.kit.cli.command import CannotStart
from app.kit.errors import ModelmillError
from app.settings import load_settings
from app.standalone import ray_node, subreaper
from app.standalone.local_ray import RESOURCE, STORE_BYTES
from app.standalone.ports import LOOPBACK, require_free
from app.standalone.process import tail
from ops.ray_run import Cluster, NodeProcess, RunFolder, began

DASHBOARD_PORT, GCS_PORT = 8265, 6379
CLIENT_PORT, CLIENT_PORTS = 10001, 100
PATIENCE_S = 120.0
GRACE_S = 5.0
POLL_S = 0.1
NOT_RUNNING = 3


class RayEnded(CannotStart):
    """One of its nodes ended by itself while it was starting."""


def main(arguments: list[str] | None = None) -> int:
    chosen = _parser().parse_args(arguments)
    try:
        settings = load_settings()
        if chosen.data:
            settings = settings.model_copy(update={"data_dir": chosen.data.expanduser().absolute()})
        folder = RunFolder(settings.data_dir)
        with folder.locked():
            if chosen.verb == "start":
                return start(folder, chosen)
            return stop(folder) if chosen.verb == "stop" else status(folder)
    except ModelmillError as error:
        say(error.message)
        if error.hint:
            say(f"  {error.hint}")
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="ops/ray-local")
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb in ("start", "stop", "status"):
        verbs.add_parser(verb).add_argument("--data", type=Path, metavar="DIR")
    begin = verbs.choices["start"]
    begin.add_argument("--gpus", type=int, default=0)
    begin.add_argument("--cpus", type=int, default=len(os.sched_getaffinity(0)))
    begin.add_argument("--port", type=int, default=int(os.environ.get("RAY_LOCAL_PORT", DASHBOARD_PORT)))
    begin.add_argument("--gcs-port", type=int, default=int(os.environ.get("RAY_LOCAL_GCS_PORT", GCS_PORT)))
    return parser


def start(folder: RunFolder, chosen: argparse.Namespace) -> int:
    """Returns when jobs are accepted.

    Raises:
        CannotStart: It does not start; nothing is left behind.
    """
    known = folder.read()
    if known and known.is_whole:
        say("Ray runs already. To start it anew: ops/ray-local stop")
        show(known)
        return 0
    if known:
        end(folder, known)  # killed, or ended with the machine: what is left of it
    for port, flag in ((chosen.port, "--port"), (chosen.gcs_port, "--gcs-port")):
        _require_free(port, flag)
    try:
        cluster = _start_cluster(folder, chosen)
    except RayEnded:  # Ray gives a worker, and parts of a head, 30 s to start, which on a busy machine are too few
        cluster = _start_cluster(folder, chosen)
    say(f"Ray runs: a head, and a worker with {chosen.cpus} CPUs and {chosen.gpus} pretended GPUs. {cluster.address}")
    show(cluster)
    return 0


def _start_cluster(folder: RunFolder, chosen: argparse.Namespace) -> Cluster:
    cluster = Cluster(chosen.port, chosen.gcs_port, folder.token(), tempfile.mkdtemp(prefix="mm-ray-", dir="/tmp"))
    folder.write(cluster)
    try:
        return _start_nodes(folder, cluster, chosen)
    except BaseException:
        end(folder, folder.read() or cluster)
        raise


def _require_free(port: int, flag: str) -> None:
    try:
        require_free(LOOPBACK, port)
    except CannotStart as error:
        raise CannotStart(error.message, hint=f"Another Ray, or a Redis? Choose another port: {flag} PORT") from error


def _client_port() -> int:
    """The first free one from Ray's own on. It is below those that the kernel gives to connections, which at times
    would take one before Ray binds it some seconds later."""
    for port in range(CLIENT_PORT, CLIENT_PORT + CLIENT_PORTS):
        with contextlib.suppress(CannotStart):
            require_free(LOOPBACK, port)
            return port
    raise CannotStart(f"No port from {CLIENT_PORT} to {CLIENT_PORT + CLIENT_PORTS - 1} is free for Ray's client.")


def _start_nodes(folder: RunFolder, cluster: Cluster, chosen: argparse.Namespace) -> Cluster:
    head = ray_node.head_command(
        gcs_port=cluster.gcs_port,
        dashboard_port=cluster.dashboard_port,
        client_port=_client_port(),
        folder=Path(cluster.temporary),
        store_bytes=STORE_BYTES,
    )
    cluster = _launch(folder, cluster, "head", head)
    _wait(folder, cluster, "head", lambda: ray_node.listens(cluster.gcs_port))
    worker = ray_node.worker_command(
        gcs_port=cluster.gcs_port, cpus=chosen.cpus, gpus=chosen.gpus, resource=RESOURCE, store_bytes=STORE_BYTES
    )
    cluster = _launch(folder, cluster, "worker", worker)
    _wait(folder, cluster, "worker", partial(_accepts_jobs, cluster))
    return cluster


def _launch(folder: RunFolder, cluster: Cluster, name: str, command: list[str]) -> Cluster:
    """The subreaper's lifeline is a pipe of which it has both ends: it outlives us, until it is told to end."""
    path = Path(cluster.temporary) / "lifeline"
    os.mkfifo(path, 0o600)
    lifeline = os.open(path, os.O_RDWR)
    path.unlink()
    with (folder.path / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", subreaper.__file__, str(lifeline), "--", *command],
            pass_fds=[lifeline],
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=ray_node.environment(os.environ, cluster.token, cluster.temporary),
        )
    os.close(lifeline)
    cluster = replace(cluster, nodes=(*cluster.nodes, NodeProcess(process.pid, began(process.pid))))
    folder.write(cluster)
    return cluster


def _wait(folder: RunFolder, cluster: Cluster, what: str, is_up: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_up():
        if not cluster.is_alive:
            raise RayEnded(f"Ray ended while its {what} was starting.", hint=tail(folder.path / f"{what}.log"))
        if time.monotonic() > deadline:
            problem = f"Ray did not start: its {what} was not up after {PATIENCE_S:.0f} s."
            raise CannotStart(problem, hint=tail(folder.path / f"{what}.log"))
        time.sleep(POLL_S)


def _accepts_jobs(cluster: Cluster) -> bool:
    try:
        return any(node.may_train for node in cluster.living())
    except ModelmillError:
        return False


def stop(folder: RunFolder) -> int:
    known = folder.read()
    was_alive = known is not None and any(node.is_alive for node in known.nodes)
    if known:
        end(folder, known)
    say("Ray is stopped." if was_alive else not_here(folder))
    return 0


def status(folder: RunFolder) -> int:
    known = folder.read()
    if known is None or not known.is_whole:
        say(not_here(folder) if known is None else "Ray has ended, or a node of it: ops/ray-local start")
        return NOT_RUNNING
    try:
        [worker] = [node for node in known.living() if node.may_train]
    except (ModelmillError, ValueError) as error:
        say(f"Ray runs, and does not answer as it should: {error}")
        return 1
    say(
        f"Ray runs at {known.address}. Of its worker are free: {worker.free_gpus:g} of {worker.total_gpus:g} GPUs, "
        f"{worker.free_cpus:g} of {worker.total_cpus:g} CPUs."
    )
    show(known)
    return 0


def not_here(folder: RunFolder) -> str:
    return f"Ray does not run here for the data in {folder.data}; --data DIR names another folder."


def end(folder: RunFolder, cluster: Cluster) -> None:
    """The worker first. The first SIGTERM asks the node; after the second its subreaper kills what is left of it."""
    for node in reversed(cluster.nodes):
        for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGKILL):
            node.send(number)
            if _has_ended(node):
                break
    shutil.rmtree(cluster.temporary, ignore_errors=True)
    folder.forget()


def _has_ended(node: NodeProcess) -> bool:
    deadline = time.monotonic() + GRACE_S
    while node.is_alive and time.monotonic() < deadline:
        time.sleep(POLL_S)
    return not node.is_alive


def show(cluster: Cluster) -> None:
    for name, value in cluster.settings.items():
        print(f"export {name}={value}")


def say(text: str) -> None:
    """To people: stdout is for `eval`."""
    print(text, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
