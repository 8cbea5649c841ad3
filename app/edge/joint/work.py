"""The task of a worker process: one JSON file, which the driver writes and the worker reads."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from app.edge.work_file import path_from_environment, work_document
from app.inference.predictor_options import ExecutionProvider
from app.joint_inference.model.content import OrderContent
from app.joint_inference.model.sources import NamedSource
from app.kit.clock import from_text
from app.kit.files import write_whole
from app.kit.network.tls import Credentials
from app.kit.text.json_values import JsonObject

MOST_IDS_PER_S = 10
"""New objects, on average."""
START_S = 60.0
"""A service that has just been created begins with 1."""


@dataclass(frozen=True)
class Work:
    """The work of one worker process."""

    content: OrderContent
    """Of the order."""
    model: Path
    """The model's file."""
    twin: Path | None
    """The file of its ONNX twin; None when it has none."""
    host: str
    """The address to listen on."""
    port: int
    folder: Path
    """The worker's own, kept over restarts."""
    agent_url: str
    node: str
    """The name of this node."""
    former: Path | None = None
    """The file of the model that it compares its own with."""
    former_twin: Path | None = None
    tls: Credentials | None = None
    """Of this node, for links to others."""
    is_encrypted: bool = False
    """It accepts encrypted connections only."""
    provider: ExecutionProvider = ExecutionProvider.AUTO
    """The node's own, for a worker without one."""
    sources: tuple[NamedSource, ...] = ()
    """What it may open as its streams, whatever its parameters say."""
    media_server: str = ""
    """The URL below which its pictures are broadcast; empty: the node has none."""

    @property
    def namespace(self) -> str:
        return str(self.content.resource["metadata"]["namespace"])

    @property
    def service(self) -> str:
        return str(self.content.resource["metadata"]["name"])

    @property
    def uid(self) -> str:
        return str(self.content.resource["metadata"].get("uid", ""))

    def first_id(self, now: datetime) -> int:
        """Returns the first id of an object for a worker that has kept none: above those that the service's worker on
        another node, or the web server for one of an older version, may have given."""
        created = self.content.resource["metadata"].get("creationTimestamp")
        age_s = (now - from_text(created)).total_seconds() if created else 0.0
        return 1 + MOST_IDS_PER_S * max(0, int(age_s - START_S))

    @property
    def parameters(self) -> dict[str, str]:
        """Those of the worker, with the node's provider if it has none."""
        return {"provider": self.provider, **self.content.worker.parameters}

    def write(self, path: Path) -> None:
        """Write the file, readable by its owner only: it holds a secret."""
        write_whole(path, json.dumps(self._to_json(), ensure_ascii=False))

    def _to_json(self) -> JsonObject:
        return {
            "role": self.content.role.value,
            "content": self.content.to_json(),
            "model": str(self.model),
            "twin": str(self.twin) if self.twin else "",
            "host": self.host,
            "port": self.port,
            "folder": str(self.folder),
            "agent_url": self.agent_url,
            "node": self.node,
            "provider": self.provider,
            "sources": [list(source) for source in self.sources],
            "media_server": self.media_server,
            "former": str(self.former) if self.former else "",
            "former_twin": str(self.former_twin) if self.former_twin else "",
            "tls": self.tls.to_json() if self.tls else [],
            "is_encrypted": self.is_encrypted,
        }

    @staticmethod
    def read(path: Path) -> Work:
        """Reads the file.

        Raises:
            WorkMissing: It cannot be read.
        """
        with work_document(path, "worker") as data:
            return Work(
                OrderContent.from_json(data["content"]),
                Path(data["model"]),
                Path(data["twin"]) if data["twin"] else None,
                str(data["host"]),
                int(data["port"]),
                Path(data["folder"]),
                str(data["agent_url"]),
                str(data["node"]),
                provider=ExecutionProvider(data["provider"]),
                sources=tuple(NamedSource(name, source) for name, source in data["sources"]),
                media_server=str(data["media_server"]),
                former=Path(data["former"]) if data["former"] else None,
                former_twin=Path(data["former_twin"]) if data["former_twin"] else None,
                tls=Credentials.from_json(data["tls"]),
                is_encrypted=bool(data["is_encrypted"]),
            )

    @staticmethod
    def from_environment() -> Work:
        """Reads the file of this process.

        Raises:
            WorkMissing: The environment does not name it, or it cannot be read.
        """
        return Work.read(path_from_environment())


def model_of(work: Work) -> dict[str, str]:
    """What a worker reports of its model: the name, and the hash of its file."""
    card = work.content.model
    return {"model": card.name, "sha256": card.sha256}
