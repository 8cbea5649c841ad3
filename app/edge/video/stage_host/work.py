"""What the host of the stages is told: one JSON file, which the agent's side writes, anew when there are other stages,
and the host reads when it has changed."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.kit.errors import BadInput
from app.video.model.job import ServicesContent

VARIABLE = "MODELMILL_WORK"


class NoWork(BadInput):
    """This process was not started by an agent, or what it was told cannot be read."""

    code = "NO_WORK"


@dataclass(frozen=True)
class ServicesWork:
    """blobs: sha256 → file. folder: the host's own."""

    content: ServicesContent
    blobs: Mapping[str, Path]
    host: str
    port: int
    folder: Path
    agent_url: str
    node: str

    def write(self, path: Path) -> None:
        """For its owner's eyes: a secret is in it. At once as a whole."""
        write_private(
            path,
            {
                "content": self.content.to_json(),
                "blobs": {sha: str(file) for sha, file in self.blobs.items()},
                "host": self.host,
                "port": self.port,
                "folder": str(self.folder),
                "agent_url": self.agent_url,
                "node": self.node,
            },
        )

    @staticmethod
    def read(path: Path) -> ServicesWork:
        """Raises NoWork."""
        try:
            data = json.loads(path.read_bytes())
            return ServicesWork(
                ServicesContent.from_json(data["content"]),
                {str(sha): Path(file) for sha, file in data["blobs"].items()},
                str(data["host"]),
                int(data["port"]),
                Path(data["folder"]),
                str(data["agent_url"]),
                str(data["node"]),
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise NoWork(f"{path} does not say what this process is to do: {error}.") from None


def write_private(path: Path, data: Mapping[str, Any]) -> None:
    """JSON for its owner's eyes. A reader sees the old file or the new one, whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(json.dumps(data, ensure_ascii=False))
    fresh.replace(path)


def path_from_environment() -> Path:
    """Raises NoWork."""
    named = os.environ.get(VARIABLE)
    if not named:
        raise NoWork(f"{VARIABLE} is not set.", hint="The agent of a node sets it for the processes it starts.")
    return Path(named)
