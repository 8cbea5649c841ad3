"""Is it alive, is it ready: by the endpoints, and by the commands that probe containers."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from app.bootstrap.health import NO_ANSWER
from tests.harness import command_line
from tests.harness.deployment import Deployment
from tests.harness.faults.deployment import parent
from tests.harness.ports import free_port
from tests.harness.postgres import PostgresServer, postgres_server
from tests.harness.until import PATIENCE_S, until

pytestmark = pytest.mark.slow
ESTABLISHED = "01"
HANGING = 100  # more than twice as many as the web has threads


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with Deployment(tmp_path_factory.mktemp("web")) as deployment:
        deployment.web()
        yield deployment


@contextmanager
def stalled(deployment: Deployment) -> Iterator[None]:
    """Redis takes what it is sent and answers nothing."""
    pid = deployment.valkey.process.pid
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def probe(deployment: Deployment, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return command_line.run("health", *words, environment={**deployment.env, **env})


# --- the endpoints ----------------------------------------------------------------------------------
def test_while_redis_stalls_and_every_thread_waits_for_it_the_probes_answer(web: Deployment) -> None:
    no_limit = httpx.Limits(max_connections=None)
    with httpx.Client(base_url=web.url, timeout=PATIENCE_S, limits=no_limit) as client, stalled(web):
        hanging = [threading.Thread(target=client.get, args=("/jobs",), daemon=True) for _ in range(HANGING)]
        for thread in hanging:
            thread.start()
        until(lambda: _connections(web) >= HANGING)
        until_not_ready(web, {"redis": "no answer within 2 s"}.__eq__)
        assert client.get("/healthz", timeout=60).json() == {"status": "ok"}
        assert "modelmill_redis_up 0.0" in client.get("/metrics", timeout=60).text
        os.kill(web.valkey.process.pid, signal.SIGCONT)
        for thread in hanging:
            thread.join()
    until(lambda: httpx.get(f"{web.url}/readyz").status_code == 200)


def until_not_ready(deployment: Deployment, is_enough: Callable[[Any], bool]) -> None:
    """Waits until only what the test expects is away: on a busy machine something else may be late for one probe.

    Args:
        is_enough: is given the problem of each part that is away, by its name.
    """

    def detail() -> Any:
        answer = httpx.get(f"{deployment.url}/readyz")
        return answer.json()["error"]["detail"] if answer.status_code == 503 else {}

    until(detail, is_enough)


def _connections(deployment: Deployment) -> int:
    """How many clients the web is connected to."""
    local = f"0100007F:{deployment.web_port:04X}"
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(row[1] == local and row[3] == ESTABLISHED for row in rows)


def test_readiness_names_the_store_when_it_is_away_and_redis_too(web: Deployment) -> None:
    objects = web.folder / "data" / "objects"
    aside = objects.with_name("aside")
    objects.rename(aside)
    objects.write_text("no folder")
    try:
        until_not_ready(web, lambda detail: set(detail) == {"object_store"})
        with stalled(web):
            until_not_ready(web, lambda detail: set(detail) == {"redis", "object_store"})
    finally:
        objects.unlink()
        aside.rename(objects)
    until(lambda: httpx.get(f"{web.url}/readyz").status_code == 200)


@contextmanager
def halted(server: PostgresServer) -> Iterator[None]:
    """PostgreSQL takes what it is sent and answers nothing."""
    with psycopg.connect(server.url("postgres")) as connection:
        postmaster = parent(connection.info.backend_pid)
    pids = [postmaster, *map(int, Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split())]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in reversed(pids):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


@pytest.mark.postgres
def test_readiness_names_the_database_when_it_stalls_and_when_it_is_away(tmp_path: Path) -> None:
    with ExitStack() as running:
        server = running.enter_context(postgres_server())
        with Deployment(tmp_path, database_url=server.new_database(), ray_address="http://127.0.0.1:1") as deployment:
            deployment.web()
            with halted(server):
                until_not_ready(deployment, {"database": NO_ANSWER}.__eq__)
                figures = httpx.get(f"{deployment.url}/metrics", timeout=60).text
                assert "modelmill_training_scheduler_up 0.0" in figures
                assert "modelmill_training_tasks" not in figures
            until(lambda: httpx.get(f"{deployment.url}/readyz").status_code == 200)
            running.close()
            until_not_ready(deployment, {"database": "The database does not answer."}.__eq__)


# --- the commands -----------------------------------------------------------------------------------
def test_the_probe_of_the_web_tells_alive_from_ready(web: Deployment) -> None:
    until(lambda: probe(web, "web").returncode == 0)
    until(lambda: probe(web, "web", "--ready").returncode == 0)
    with stalled(web):
        until(lambda: probe(web, "web").returncode == 0)
        away = probe(web, "web", "--ready")
    assert away.returncode == 1
    assert "redis" in away.stderr


def test_the_probe_of_the_web_fails_where_none_listens(web: Deployment) -> None:
    nobody = probe(web, "web", MODELMILL_PORT=str(free_port()))
    assert nobody.returncode == 1
    assert "does not answer" in nobody.stderr


def test_the_probe_of_a_worker_looks_for_one_of_its_queue_and_host(tmp_path: Path) -> None:
    with Deployment(tmp_path, node_name="here", worker_ttl_s="2") as deployment:
        assert probe(deployment, "worker", "--queue", "bie").returncode == 1
        deployment.workers("actors", bie=1)
        until(lambda: probe(deployment, "worker", "--queue", "bie").returncode == 0)
        for words, env in ((("--queue", "nef"), {}), (("--queue", "bie"), {"MODELMILL_NODE_NAME": "there"})):
            missing = probe(deployment, "worker", *words, **env)
            assert missing.returncode == 1
            assert "sign of life" in missing.stderr
        os.killpg(deployment.processes[0].pid, signal.SIGSTOP)  # it hangs
        until(lambda: not list(deployment.redis.scan_iter("worker:*")))
        assert probe(deployment, "worker", "--queue", "bie").returncode == 1
        os.killpg(deployment.processes[0].pid, signal.SIGCONT)
        until(lambda: probe(deployment, "worker", "--queue", "bie").returncode == 0)


def test_a_worker_is_not_called_ill_because_redis_is_away(web: Deployment) -> None:
    with stalled(web):
        answer = probe(web, "worker", "--queue", "bie")
    assert answer.returncode == 0
    assert "cannot tell" in answer.stderr
