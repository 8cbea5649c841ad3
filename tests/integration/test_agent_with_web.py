"""A node's agent and the real web: nothing between them is a test's."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

from app.bootstrap.container import assemble
from app.edge.agent import process
from app.kit.objects.blobs import blob_key
from app.kit.objects.filesystem import FilesystemStore
from app.main import create_app
from app.nodes.model import WorkerReport, WorkerState, WorkKey
from app.nodes.service import Nodes
from app.settings import Settings
from tests.harness.agent.node import SERVES, SLEEPS, Node
from tests.harness.agent.program import KIND
from tests.harness.onvif_camera import INTERFACE, OnvifCamera
from tests.harness.processes import is_alive
from tests.harness.reused_pid import sleeping_with_pid
from tests.harness.until import until
from tests.harness.valkey import Valkey
from tests.harness.web import served

KEY = WorkKey(KIND, "6f1c", "edge")


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory, shared_valkey: Valkey) -> Settings:
    folder = tmp_path_factory.mktemp("web")
    return Settings(data_dir=folder, redis_url=shared_valkey.url(0), secret_key=SecretStr("a secret"))


@pytest.fixture(scope="module")
def url(settings: Settings) -> Iterator[str]:
    """Of the web."""
    with served(create_app(settings)) as address:
        yield address


@pytest.fixture
def nodes(settings: Settings, url: str) -> Iterator[Nodes]:
    """The verbs of the web's own nodes, as its controllers have them."""
    container = assemble(settings)
    yield container.nodes
    container.close()


@pytest.fixture
def node(tmp_path: Path, url: str) -> Iterator[Node]:
    made = Node(tmp_path, url)
    yield made
    made.close()
    for pid in made.workers():
        os.kill(pid, signal.SIGKILL)


def order(nodes: Nodes, generation: int, **content: object) -> None:
    with nodes.database.write() as conn:
        nodes.order(conn, "edge0", KEY, namespace="default", name="helmet", generation=generation, content=content)
    nodes.notify("edge0")


def join(nodes: Nodes, node: Node, *arguments: str) -> None:
    """Starts the agent, which takes its name over, and waits for its first report."""
    former = nodes.find("edge0")
    node.start("--replace", *arguments)
    last_seen_at = former.last_seen_at if former else None
    until(lambda: (now := nodes.find("edge0")) and now.last_seen_at != last_seen_at)


def seen(nodes: Nodes, is_enough: Callable[[WorkerReport], bool]) -> WorkerReport:
    worker = until(lambda: nodes.get("edge0").worker(KEY), lambda worker: worker is not None and is_enough(worker))
    assert isinstance(worker, WorkerReport)
    return worker


def test_a_service_comes_changes_and_goes_on_a_node_that_registered_itself(nodes: Nodes, node: Node) -> None:
    join(nodes, node)
    assert nodes.get("edge0").version
    assert nodes.get("edge0").address == "127.0.0.1"
    order(nodes, 1, program=SERVES, is_served=True)
    first = seen(nodes, lambda worker: worker.state is WorkerState.RUNNING)
    assert httpx.get(f"http://{first.address}/", trust_env=False).status_code == 200

    order(nodes, 2, program=SERVES + "# other", is_served=True)
    second = seen(nodes, lambda worker: worker.generation == 2 and worker.state is WorkerState.RUNNING)
    assert second.pid != first.pid and second.address == first.address
    assert nodes.pending("edge0") == []

    node.end(signal.SIGTERM)
    assert is_alive(second.pid)
    with nodes.database.write() as conn:
        nodes.withdraw(conn, KIND, KEY.uid)
    node.start()
    until(lambda: not is_alive(second.pid) and node.rows("orders") == 0)
    until(lambda: nodes.get("edge0").worker(KEY) is None)


def test_a_file_that_an_order_names_is_fetched_from_the_object_store(
    settings: Settings, nodes: Nodes, node: Node
) -> None:
    data = os.urandom(3 << 20)
    digest = sha256(data).hexdigest()
    source = node.data.parent / "weights"
    source.write_bytes(data)
    FilesystemStore(settings.objects).put_file(blob_key(digest), source)
    join(nodes, node)
    order(nodes, 1, program=SLEEPS, files=[[digest, len(data)]], model={"sha256": digest})
    seen(nodes, lambda worker: worker.state is WorkerState.RUNNING)
    assert (node.data / "blobs" / digest).read_bytes() == data
    with nodes.database.write() as conn:
        nodes.withdraw(conn, KIND, KEY.uid)
    nodes.notify("edge0")
    until(lambda: not (node.data / "blobs" / digest).exists())


@pytest.mark.slow
def test_what_was_forgotten_on_the_node_is_told_again(nodes: Nodes, node: Node) -> None:
    join(nodes, node)
    order(nodes, 1, program=SLEEPS)
    seen(nodes, lambda worker: worker.state is WorkerState.RUNNING)
    node.end(signal.SIGINT)
    assert node.workers() == []
    (node.data / "agent.db").write_bytes(b"no database" * 1000)
    node.start()
    until(node.workers)
    with nodes.database.write() as conn:
        nodes.withdraw(conn, KIND, KEY.uid)
    nodes.notify("edge0")
    until(lambda: not node.workers())


def test_cameras_that_answer_on_the_network_of_a_node_come_with_its_report(nodes: Nodes, node: Node) -> None:
    with OnvifCamera("http://10.0.0.7/onvif/device_service", "onvif://www.onvif.org/name/Front%20door"):
        join(nodes, node, "--discover", INTERFACE)
        discovered = until(lambda: nodes.find("edge0") and nodes.get("edge0").report.discovered)
    assert [(camera.address, camera.name) for camera in discovered] == [("10.0.0.7", "Front door")]


def test_a_process_with_the_pid_of_an_orphan_that_has_ended_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One worker ends at once, and its pid is another process's by the time that the second one is killed."""
    monkeypatch.setattr(process, "TERM_S", 1.0)
    monkeypatch.setattr(process, "KILL_S", 1.0)
    with (
        started(tmp_path, "setsid sleep 1000 & echo $!; wait") as first,
        started(tmp_path, "trap '' TERM; setsid sleep 1000 & echo $!; wait"),
        ThreadPoolExecutor(1) as thread,
    ):
        count = thread.submit(process.end_orphans, tmp_path)
        until(lambda: not Path(f"/proc/{first}").exists())
        with sleeping_with_pid(first) as other:
            assert count.result() == 2
            with pytest.raises(subprocess.TimeoutExpired):
                other.wait(0.1)


@contextmanager
def started(folder: Path, script: str) -> Iterator[int]:
    """What a shell starts in this folder in a session of its own, and reaps; the script says its pid."""
    with subprocess.Popen(["sh", "-c", script], cwd=folder, stdout=subprocess.PIPE) as shell:
        assert shell.stdout
        pid = int(shell.stdout.readline())
        until(lambda: os.getsid(pid) == pid)
        yield pid
