"""A host of stages as a node's agent would start it, for tests."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from app.edge.video.work import ServicesWork
from app.edge.work_file import VARIABLE
from app.inference.model_card import Format, ModelCard
from app.kit.files import sha256_of
from app.video.model.job import ServicesContent, StageHost
from app.video.model.kinds import Stage
from app.video.model.stage_call import Call, pack_call
from tests.harness.copied_children import spawn
from tests.harness.paths import REPOSITORY
from tests.harness.ports import free_port
from tests.harness.until import until

SECRET = "s3cret-of-the-host"


def card_of(path: Path, **more: Any) -> ModelCard:
    return ModelCard(path.stem, more.pop("format", Format.ONNX), sha256_of(path), path.stat().st_size, **more)


def stage_of(name: str, kind: str, *variants: Sequence[Path], **parameters: str) -> tuple[Stage, list[Path]]:
    """The stage, and the files that its models are."""
    cards = tuple(tuple(card_of(path) for path in paths) for paths in variants)
    return Stage(name, kind, cards, parameters), [path for paths in variants for path in paths]


@dataclass
class VideoHost:
    """stages: key → stage; files: of models."""

    folder: Path
    stages: dict[str, Stage]
    files: list[Path]
    processes: int = 1
    agent_url: str = ""
    peers: tuple[StageHost, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    node: str = "edge-1"

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.file = self.folder / "work.json"
        self.log = self.folder / "host.log"
        self.client = httpx.Client(base_url=self.url, timeout=60, trust_env=False)
        self.write()
        self.log.unlink(missing_ok=True)
        self.process = spawn(
            [sys.executable, "-m", "app.edge.video.stage_host.host"],
            env={**os.environ, "MODELMILL_LOG_FORMAT": "json", VARIABLE: str(self.file), **self.environment},
            log=self.log,
            folder=REPOSITORY,
        )
        until(self.is_up)

    def write(self) -> None:
        self.work().write(self.file)

    def work(self, **more: Any) -> ServicesWork:
        return ServicesWork(
            ServicesContent(self.stages, SECRET, self.peers, self.processes),
            {sha256_of(path): path for path in self.files},
            host="127.0.0.1",
            port=self.port,
            folder=self.folder,
            agent_url=self.agent_url,
            node=self.node,
            **more,
        )

    def is_up(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        try:
            return self.client.get("/healthz").status_code == 200
        except httpx.TransportError:
            return False

    def call(self, call: Call, **headers: str) -> httpx.Response:
        body, own, query = pack_call(call)
        return self.client.post(f"/service/{call.stage}", content=body, headers={**own, **headers}, params=query)

    def post(self, name: str, body: Mapping[str, Any], **headers: str) -> httpx.Response:
        return self.client.post(f"/service/{name}", json=body, headers=headers)

    def close(self) -> None:
        self.client.close()
        self.process.terminate()
        self.process.wait(120)
