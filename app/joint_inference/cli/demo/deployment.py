"""The whole product in its own folder: the embedded stack, a cloud node and an edge node. All of it ends with the
block, also on an exception."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from app.joint_inference.client import JointClient
from app.joint_inference.model.status import current_of
from app.kit.cli.command import CannotStart
from app.kit.clock import happens_within
from app.kit.errors import ModelmillError
from app.kit.text.json_values import JsonObject
from app.model_registry.client import ModelsClient
from app.nodes.client import NodesClient
from app.standalone.demonstration_stack import demonstration_stack
from app.standalone.nodes import node_part
from app.standalone.process import Part
from app.standalone.supervisor import Notice

HOST = "127.0.0.1"
NODES = {"cloud0": "cloud", "edge0": "edge"}
PATIENCE_S = 90.0
POLL_S = 0.2
GONE_S = 15.0


@dataclass(frozen=True)
class DemoDeployment:
    url: str
    folder: Path
    client: JointClient

    def bring(self, name: str, content: bytes, *, labels: Sequence[str]) -> None:
        """A classifier as ONNX, under this name."""
        file = self.folder / f"{name}.onnx"
        file.write_bytes(content)
        self.bring_file(name, file, decoder="classifier", labels=labels)

    def bring_file(self, name: str, file: Path, *, decoder: str, labels: Sequence[str] = ()) -> None:
        """Registers a model.

        Args:
            name: of the model.
            file: its ONNX.
            decoder: how its answers are read.
            labels: names of its classes.
        """
        with ModelsClient(self.url) as client:
            client.bring(name, file, decoder=decoder, labels=labels)

    def await_nodes(self, prefix: str = "") -> None:
        """Until both have joined, but not forever: the service says what is missing."""
        names = {f"{prefix}{name}" for name in NODES}
        with NodesClient(self.url) as client:
            happens_within(PATIENCE_S, lambda: names <= {node["name"] for node in client.nodes()}, poll_s=POLL_S)

    def serving(self, namespace: str, name: str, say: Callable[[str], None]) -> str:
        """Returns host:port of its edge worker, once the service runs.

        Raises:
            CannotStart: It takes too long; with its last state.
        """
        deadline, last_state = time.monotonic() + PATIENCE_S, ""
        while True:
            record = self.client.service(namespace, name)
            condition = current_of(record["resource"]["status"]) or {}
            state = f"{condition.get('type', 'Pending')}  {condition.get('reason', '')}"
            if state != last_state:
                last_state = state
                say(state)
            if condition.get("reason") == "Serving" and (address := _read_address(record)):
                return address
            if time.monotonic() > deadline:
                raise CannotStart(f"the service does not run: {state}: {condition.get('message', '')}")
            time.sleep(POLL_S)

    def end(self, namespace: str, name: str) -> None:
        """Delete the service, so that its workers end orderly."""
        with suppress(ModelmillError):
            self.client.delete(namespace, name)
            deadline = time.monotonic() + GONE_S
            while time.monotonic() < deadline:
                self.client.service(namespace, name)
                time.sleep(POLL_S)


@contextmanager
def running_deployment(*, port: int, is_kept: bool, notice: Notice, camera: str = "") -> Iterator[DemoDeployment]:
    """All of it, as long as the block.

    Args:
        port: of the web; 0: any that is free.
        is_kept: the folder stays.
        camera: of the edge node, its video 0; empty: it has none.

    Raises:
        CannotStart: Its parts do not start.
    """
    folder = Path(tempfile.mkdtemp(prefix="modelmill-joint-"))
    with demonstration_stack(port, folder, notice, is_kept=is_kept) as stack:
        stack.supervisor.start(node_parts(stack.url, folder, camera=camera))
        with JointClient(stack.url) as client:
            yield DemoDeployment(stack.url, folder, client)


def node_parts(url: str, folder: Path, prefix: str = "", *, camera: str = "") -> list[Part]:
    """The agents of the two nodes.

    Args:
        prefix: of their names. With one they take over the names that a demonstration has left, which was killed.
        camera: of the edge node, its video 0; empty: it has none.
    """
    more = ("--listen", f"{HOST}:0", *(("--replace",) if prefix else ()))
    own = {"edge": ("--video", f"camera={camera}")} if camera else {}
    return [
        node_part(f"{prefix}{name}", side, url, folder / name, *more, *own.get(side, ()))
        for name, side in NODES.items()
    ]


def _read_address(record: JsonObject) -> str:
    edge_workers = [worker for worker in record["workers"] if worker["role"] == "edge"]
    return str(edge_workers[0].get("address") or "") if edge_workers else ""
