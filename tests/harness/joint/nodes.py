"""Nodes that are only pretended: they store what they are told and report workers as a test says, at once."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import yaml

from app.accounts.model import Role
from app.bootstrap.container import Container
from app.joint_inference.model.content import OrderContent
from app.kit.clock import now as clock
from app.nodes.model import NodeReport, Operation, Order, Side, WorkerReport, WorkerState, WorkKey
from tests.harness.api import small_model
from tests.harness.paths import SAMPLES

USER = "alice"
NODES = {"edge0": Side.EDGE, "solar-corona-cloud": Side.CLOUD}
MODELS = ("small-model", "big-model")
SAMPLE = SAMPLES / "helmet"
LOOKS = 4
"""The cloud worker first, then the edge worker, then that both run."""


def helmet(name: str = "helmet", *, namespace: str = "default", algorithm: str = "IBT") -> dict[str, Any]:
    """A service for the pretended nodes, of the bundled workers."""
    (file,) = SAMPLE.glob("*.yaml")
    resource: dict[str, Any] = yaml.safe_load(file.read_text())
    resource["metadata"] = {"name": name, "namespace": namespace}
    resource["spec"]["edgeWorker"]["hardExampleAlgorithm"]["name"] = algorithm
    for side in ("edgeWorker", "cloudWorker"):
        resource["spec"][side]["workerSpec"] |= {"scriptDir": "", "scriptBootFile": ""}
    return resource


class Env:
    """One user with the two models, and the two nodes of the sample. now: moves on at each look."""

    def __init__(self, container: Container, user: str = USER) -> None:
        self.container, self.user = container, user
        self.now = clock()
        self.failing: dict[str, WorkerReport] = {}
        self._known: dict[str, dict[WorkKey, Order]] = {name: {} for name in NODES}
        self._away = set[str]()
        container.prepare()
        if user != container.settings.local_user:
            container.accounts.users.create(user, Role.USER, by="test")
        for model in MODELS:
            container.models.add_upload(user, model, [small_model()], now=self.now)
        for name, side in NODES.items():
            container.nodes.register(name, side, now=self.now)

    def go_away(self, node: str) -> None:
        self._away.add(node)

    def come_back(self, node: str) -> None:
        self._away.discard(node)

    def fail(self, part: str, *, log: tuple[str, ...], exit_code: int = 1) -> None:
        """From now on the worker of this side is one that ended."""
        key = WorkKey("", "", part)
        self.failing[part] = WorkerReport(
            key,
            "",
            "",
            "",
            0,
            WorkerState.FAILED,
            restarts=3,
            exit_code=exit_code,
            reason="Crashed",
            message="It ended three times within 60 s.",
            log=log,
        )

    def heal(self, part: str) -> None:
        self.failing.pop(part, None)

    def settle(self) -> None:
        """Until nothing changes any more."""
        for _ in range(LOOKS):
            self.step()

    def step(self) -> None:
        """The nodes do what they are told and report, and the controller looks at every service."""
        self.now += timedelta(seconds=1)
        for node in NODES:
            if node not in self._away:
                self._act(node, self.now)
        for service in self.container.joint.services.all(self.user)[0]:
            self.container.joint.controller.reconcile(service.uid, now=self.now)

    def _act(self, node: str, now: datetime) -> None:
        nodes, known = self.container.nodes, self._known[node]
        for order in nodes.pending(node):
            if order.operation is Operation.DELETE:
                known.pop(order.key, None)
            else:
                known[order.key] = order
            nodes.acknowledge(node, [order.seq])
        workers = tuple(self._worker(order) for order in known.values())
        nodes.report(node, NodeReport(cores=4, workers=workers), address="127.0.0.1", version="1", now=now)

    def _worker(self, order: Order) -> WorkerReport:
        name = OrderContent.from_json(order.content).worker.name
        failed = self.failing.get(order.key.part)
        facts: dict[str, Any] = {"state": WorkerState.RUNNING, "pid": 4711, "address": "127.0.0.1:5000"}
        if failed is not None:
            names = ("state", "restarts", "exit_code", "reason", "message", "log", "detail", "former_generation")
            facts = {name: getattr(failed, name) for name in names}
        return WorkerReport(
            key=order.key,
            namespace=order.namespace,
            owner_name=order.name,
            name=name,
            generation=order.generation,
            **facts,
        )
