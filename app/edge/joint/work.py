"""What a worker process is told: one JSON file, which the agent's side writes and the worker reads."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.joint_inference.model.content import Content
from app.kit.errors import BadInput

VARIABLE = "MODELMILL_WORK"


class NoWork(BadInput):
    """This process was not started as a worker, or what it was told cannot be read."""

    code = "NO_WORK"


@dataclass(frozen=True)
class Work:
    """model, twin: files; twin: None when there is none. folder: the worker's own, kept over restarts.

    source: what it may open as its stream, whatever its parameters say; empty: nothing.
    """

    content: Content
    model: Path
    twin: Path | None
    host: str
    port: int
    folder: Path
    agent_url: str
    node: str
    source: str = ""

    @property
    def namespace(self) -> str:
        return str(self.content.resource["metadata"]["namespace"])

    @property
    def service(self) -> str:
        return str(self.content.resource["metadata"]["name"])

    @property
    def uid(self) -> str:
        return str(self.content.resource["metadata"].get("uid", ""))

    def write(self, path: Path) -> None:
        """For its owner's eyes: a secret is in it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(self._to_json(), ensure_ascii=False)
        fresh = path.with_name(f"{path.name}.new")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        fresh.replace(path)

    def _to_json(self) -> dict[str, Any]:
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
            "source": self.source,
        }

    @staticmethod
    def read(path: Path) -> Work:
        """Raises NoWork."""
        try:
            data = json.loads(path.read_bytes())
            return Work(
                Content.from_json(data["content"]),
                Path(data["model"]),
                Path(data["twin"]) if data["twin"] else None,
                str(data["host"]),
                int(data["port"]),
                Path(data["folder"]),
                str(data["agent_url"]),
                str(data["node"]),
                str(data["source"]),
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise NoWork(f"{path} does not say what this worker is to do: {error}.") from None

    @staticmethod
    def from_environment() -> Work:
        """Raises NoWork."""
        named = os.environ.get(VARIABLE)
        if not named:
            raise NoWork(f"{VARIABLE} is not set.", hint="The agent of a node sets it for the workers it starts.")
        return Work.read(Path(named))


def model_of(work: Work) -> dict[str, str]:
    """What a worker says of the model that it runs: its name, and the hash of its file."""
    card = work.content.model
    return {"model": card.name, "sha256": card.sha256}
