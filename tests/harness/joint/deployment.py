"""The whole product with nodes of its own on this machine, as its users see it. For tests and measurements."""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from app.bootstrap.container import assemble
from app.kit.queue.messages import Queue
from tests.harness.deployment import DRAMATIQ, Deployment, Process
from tests.harness.ports import free_port
from tests.harness.until import PATIENCE_S, until

SERVICES, MODELS = "/api/v2/services", "/api/v2/models"
ACTORS = "tests.harness.joint.hurried_actors"
QUEUES = (
    Queue.JOINT,
    Queue.NODES,
    Queue.JOINT_CALIBRATION,
    Queue.NOTIFICATIONS,
    Queue.PERIODIC,
    Queue.VIDEO,
    Queue.VIDEO_PLANS,
)
BUILTIN = {"scriptDir": "", "scriptBootFile": "", "frameworkType": "onnx", "frameworkVersion": "1"}
PATIENT = {"deadline_ms": "60000"}
"""An edge worker waits so long for the answer of the cloud, which a busy machine may need."""
Json = dict[str, Any]


class Agent:
    """`modelmill node` with a data folder that outlives it. url: of its own server. program: that, or one like it."""

    program: Sequence[str] = ("app.cli.main", "node")

    def __init__(self, deployment: Deployment, name: str, side: str, *arguments: str, host: str = "127.0.0.1") -> None:
        self.deployment = deployment
        self.name = name
        self.folder = deployment.folder / f"node-{name}"
        self.port = free_port()
        self.url = f"http://{host}:{self.port}"
        self.command = [
            sys.executable,
            "-m",
            *self.program,
            "--name",
            name,
            "--side",
            side,
            "--cloud",
            deployment.url.replace("http", "ws", 1),
            "--listen",
            f"{host}:{self.port}",
            "--data-dir",
            str(self.folder),
            "--source",
            str(deployment.folder),
            *arguments,
        ]
        self.process = self.start()

    def start(self) -> Process:
        self.process = self.deployment.start(self.command)
        return self.process

    def kill(self) -> None:
        """The agent alone: what it has started lives in sessions of its own."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """With all its workers."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(PATIENCE_S)


class HurriedAgent(Agent):
    program = ("tests.harness.joint.hurried_node",)


class JointDeployment:
    """settings: of the product."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.deployment = Deployment(folder, **settings)
        self.http = httpx.Client(base_url=self.deployment.url, timeout=PATIENCE_S, trust_env=False)
        self.agents: dict[str, Agent] = {}
        self.controller: Process | None = None
        self.web_process: Process | None = None

    def start(self) -> None:
        self.web()
        self.deployment.start([str(Path(DRAMATIQ).with_name("periodiq")), "actors"])
        self.control()
        self.watch_nodes()

    def web(self) -> None:
        self.web_process = self.deployment.web()

    @contextmanager
    def controllers_asleep(self) -> Iterator[None]:
        """Nothing but the test changes anything."""
        assert self.controller is not None
        os.killpg(self.controller.pid, signal.SIGSTOP)
        while self._is_locked():  # they fell asleep in the middle of a transaction
            os.killpg(self.controller.pid, signal.SIGCONT)
            time.sleep(0.05)
            os.killpg(self.controller.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.killpg(self.controller.pid, signal.SIGCONT)

    def _is_locked(self) -> bool:
        time.sleep(0.05)  # until all of them have stopped
        file = self.deployment.settings().database.removeprefix("sqlite:///")
        with closing(sqlite3.connect(file, timeout=0, isolation_level=None)) as conn:
            try:
                conn.execute("BEGIN IMMEDIATE")
                conn.execute("ROLLBACK")
            except sqlite3.OperationalError:
                return True
        return False

    def watch_nodes(self) -> None:
        """Now, and not in the next minute."""
        container = assemble(self.deployment.settings())
        container.broker.send("nodes", "watch_nodes")
        container.close()

    def kill_web(self) -> None:
        assert self.web_process is not None
        os.killpg(self.web_process.pid, signal.SIGKILL)
        self.web_process.wait()

    def control(self) -> None:
        command = [
            DRAMATIQ,
            "tests.harness.joint.hurried_actors",
            "--queues",
            *QUEUES,
            "--processes",
            "1",
            "--threads",
            "4",
        ]
        self.controller = self.deployment.start(command)

    def node(self, name: str, side: str, *arguments: str) -> Agent:
        """Started, and seen by the web."""
        self.agents[name] = HurriedAgent(self.deployment, name, side, *arguments)
        until(lambda: self._is_online(name))
        return self.agents[name]

    def remove_nodes(self, *names: str) -> None:
        """With all services, which a failed test may have left."""
        left = self.http.get(SERVICES, params={"limit": 500}).json()["services"]
        for service in left:
            self.http.delete(f"{SERVICES}/{service['namespace']}/{service['name']}")
        until(lambda: self.http.get(SERVICES).json()["services"], lambda services: not services)
        for name in names:
            self.remove_node(name)

    def remove_node(self, name: str) -> None:
        self.agents.pop(name).stop()
        until(lambda: self.http.delete(f"/neptune/nodes/{name}").status_code in (204, 404))

    def close(self) -> None:
        for agent in self.agents.values():
            if agent.process.poll() is not None:
                agent.start()  # it left workers behind, which it knows
            agent.stop()
        self.http.close()
        self.deployment.__exit__(None, None, None)

    def add_model(self, name: str, onnx: bytes, **fields: str) -> None:
        answer = self.http.post(MODELS, data={"name": name, **fields}, files={"model": (f"{name}.onnx", onnx)})
        assert answer.status_code == 201, answer.text

    def remove_models(self, *names: str) -> None:
        for name in names:
            assert self.http.delete(f"{MODELS}/named", params={"name": name}).status_code == 204

    def apply(self, resource: Json) -> Json:
        answer = self.http.post(SERVICES, json=resource, params={"apply": True})
        assert answer.status_code in (200, 201), answer.text
        service: Json = answer.json()
        return service

    def service(self, name: str, namespace: str = "default") -> Json:
        answer = self.http.get(f"{SERVICES}/{namespace}/{name}")
        assert answer.status_code == 200, answer.text
        service: Json = answer.json()
        return service

    def delete(self, name: str, namespace: str = "default") -> None:
        assert self.http.delete(f"{SERVICES}/{namespace}/{name}").status_code == 202

    def remove(self, *names: str) -> None:
        """Until they are gone."""
        for name in names:
            self.delete(name)
        for name in names:
            until(partial(self.is_gone, name))

    def ask(self, name: str, pictures: Sequence[bytes]) -> list[Json]:
        """The edge worker, as a program on its machine asks it."""
        url = self.predict_url(name)
        answers = [self.http.post(url, files={"picture": ("d.png", picture, "image/png")}) for picture in pictures]
        assert {answer.status_code for answer in answers} == {200}, answers[0].text
        return [answer.json() for answer in answers]

    def predict_url(self, name: str) -> str:
        return f"http://{worker(self.service(name), 'edge')['address']}/{name}/predict"

    def when(self, name: str, is_so: Callable[[Json], Any]) -> Json:
        return until(lambda: self.service(name), is_so)

    def reaches(self, name: str, *states: str) -> Json:
        """states: types or reasons of the current condition."""
        return self.when(name, lambda service: set(states) & set(current(service)[:2]))

    def starts_again(self, name: str, role: str, *, former_pid: int) -> Json:
        """Its worker runs in another process, and answers there."""
        is_so = lambda seen: seen["state"] == "RUNNING" and seen["pid"] != former_pid  # noqa: E731
        return self.when(name, lambda service: is_so(worker(service, role)))

    def is_gone(self, name: str, namespace: str = "default") -> bool:
        return self.http.get(f"{SERVICES}/{namespace}/{name}").status_code == 404

    def _is_online(self, name: str) -> bool:
        answer = self.http.get(f"/neptune/nodes/{name}")
        return answer.status_code == 200 and bool(answer.json()["is_online"])


def current(service: Json) -> tuple[str, str, str]:
    """Type, reason and message of the requirement's conditions[-1]."""
    last = service["resource"]["status"]["conditions"][-1]
    return last["type"], last["reason"], last["message"]


def worker(service: Json, role: str) -> Json:
    return next(seen for seen in service["workers"] if seen["role"] == role)


def metrics(service: Json) -> dict[str, str]:
    return {metric["key"]: metric["value"] for metric in service["resource"]["status"].get("metrics", ())}


def resource(
    name: str,
    *,
    edge: str,
    cloud: str,
    small: str,
    big: str,
    algorithm: str = "CrossEntropy",
    parameters: dict[str, str] | None = None,
    cloud_parameters: dict[str, str] | None = None,
    namespace: str = "default",
    script: str = "",
    cloud_script: str = "",
) -> Json:
    """A JointInferenceService with the bundled workers; script: folder/program of the edge worker instead."""
    folder, _, program = script.rpartition("/")
    cloud_folder, _, cloud_program = cloud_script.rpartition("/")
    return {
        "apiVersion": "neptune.io/v1alpha1",
        "kind": "JointInferenceService",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "edgeWorker": {
                "name": f"{name}-edge",
                "model": {"name": small},
                "nodeName": edge,
                "hardExampleAlgorithm": {"name": algorithm},
                "workerSpec": {
                    **BUILTIN,
                    "scriptDir": folder,
                    "scriptBootFile": program,
                    "parameters": _pairs({**PATIENT, **(parameters or {})}),
                },
            },
            "cloudWorker": {
                "name": f"{name}-cloud",
                "model": {"name": big},
                "nodeName": cloud,
                "workerSpec": {
                    **BUILTIN,
                    "scriptDir": cloud_folder,
                    "scriptBootFile": cloud_program,
                    "parameters": _pairs(cloud_parameters),
                },
            },
        },
    }


def _pairs(parameters: dict[str, str] | None) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in (parameters or {}).items()]
