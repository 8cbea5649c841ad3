"""The product on seven hosts: web, scheduler, one each for ONNX and NEF, two for BIE; store, Valkey on the bridge."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from app.bootstrap.container import Container, assemble
from app.settings import Settings
from tests.harness.deployment import DRAMATIQ
from tests.harness.hosts.network import Host, Network, NotPermitted
from tests.harness.hosts.port_forward import Forwarding
from tests.harness.s3_server import ACCESS_KEY, SECRET_KEY, S3Server
from tests.harness.until import until
from tests.harness.valkey import Valkey

QUEUES = {"onnx-a": "onnx", "bie-a": "bie", "bie-b": "bie", "nef-a": "nef"}
WORKER_TTL_S = 3


@dataclass(frozen=True)
class Site:
    """url: of the web. token: of a user. container: what an operator's own program would have, beside the bridge."""

    url: str
    token: str
    network: Network
    container: Container

    def host_of(self, worker: str) -> Host:
        return self.network.hosts[worker.partition("/")[0]]


@pytest.fixture(scope="session")
def site(s3_server: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with ExitStack() as stack:
        try:
            network = stack.enter_context(Network())
        except NotPermitted as error:
            if os.environ.get("CI"):
                pytest.fail(f"no network namespaces: {error}")
            pytest.skip(f"no network namespaces: {error}")
        yield _site(stack, network, s3_server.endpoint, tmp_path_factory.mktemp("valkey"))


def _site(stack: ExitStack, network: Network, s3_endpoint: str, folder: Path) -> Site:
    valkey = Valkey(folder)
    stack.callback(valkey.kill)
    s3 = urlsplit(s3_endpoint)
    for port in (valkey.port, s3.port or 80):
        stack.enter_context(Forwarding(network.address, port))
    shared = {
        "redis_url": f"redis://{network.address}:{valkey.port}/0",
        "store": "s3",
        "s3_endpoint": f"http://{network.address}:{s3.port}",
        "s3_bucket": f"hosts-{network.tag}",
        "s3_access_key": ACCESS_KEY,
        "s3_secret_key": SECRET_KEY,
        "worker_ttl_s": str(WORKER_TTL_S),
        "stage_threads": "1",
        "sftp": "off",
    }
    stack.callback(network.__exit__, None, None, None)  # the hosts end before what they lean on
    for name, queue in QUEUES.items():
        network.host(name).start(_worker(queue), **shared)
    network.host("scheduler").start(_worker("done", "periodic"), **shared)
    container = assemble(Settings(data_dir=folder / "data", redis_url=valkey.url(0)))
    stack.callback(container.close)
    web = network.host("web")
    site = Site(f"http://{web.address}:8080", _start_web(web, shared), network, container)
    _wait(site)
    return site


def _start_web(web: Host, shared: dict[str, str]) -> str:
    """A token for it. Whoever asks over the network must have one."""
    told = {**shared, "host": "0.0.0.0", "secret_key": secrets.token_hex(32)}
    users = [sys.executable, "-m", "app.cli.main", "users"]
    web.run([*users, "create", "somebody"], **told)
    token = web.run([*users, "token", "somebody"], **told)
    web.start(
        [sys.executable, "-m", "uvicorn", "app.main:create_app", "--factory", "--host", "0.0.0.0", "--port", "8080"],
        **told,
    )
    return token


def _worker(*queues: str) -> list[str]:
    return [sys.executable, DRAMATIQ, "actors", "--queues", *queues, "--processes", "1", "--threads", "1"]


def _wait(site: Site) -> None:
    def describe() -> str:
        logs = {name: host.log()[-800:] for name, host in site.network.hosts.items()}
        return f"all hosts are up: {sorted(site.container.store.workers())} {logs}"

    until(lambda: _is_up(site), what=describe)


def _is_up(site: Site) -> bool:
    if len(site.container.store.workers()) < len(QUEUES) + 1:
        return False
    try:
        return httpx.get(f"{site.url}/readyz", trust_env=False).status_code == 200
    except httpx.TransportError:
        return False
