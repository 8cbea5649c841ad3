"""What the runner of a job is told: one JSON file, which the agent's side writes, anew when there is another plan,
constraint or host, and the runner reads when it has changed."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from app.edge.video.stage_host.work import VARIABLE, NoWork
from app.kit.errors import BadInput
from app.video.model.job import JobContent

__all__ = ["VARIABLE", "NoWork", "RunnerWork"]


@dataclass(frozen=True)
class RunnerWork:
    """source: path or URL of the video, as this node knows it. folder: the job's own, kept over restarts."""

    content: JobContent
    source: str
    host: str
    port: int
    folder: Path
    agent_url: str
    node: str

    def write(self, path: Path) -> None:
        """For its owner's eyes: secrets are in it. At once as a whole."""
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(
            {**vars(self), "content": self.content.to_json(), "folder": str(self.folder)}, ensure_ascii=False
        )
        fresh = path.with_name(f"{path.name}.new")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        fresh.replace(path)

    @staticmethod
    def read(path: Path) -> RunnerWork:
        """Raises NoWork."""
        try:
            data = json.loads(path.read_bytes())
            return RunnerWork(
                JobContent.from_json(data["content"]),
                str(data["source"]),
                str(data["host"]),
                int(data["port"]),
                Path(data["folder"]),
                str(data["agent_url"]),
                str(data["node"]),
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError, BadInput) as error:
            raise NoWork(f"{path} does not say what this runner is to do: {error}.") from None

    @staticmethod
    def from_environment() -> tuple[RunnerWork, Path]:
        """The work, and its file, to be read again when it has changed. Raises NoWork."""
        named = os.environ.get(VARIABLE)
        if not named:
            raise NoWork(f"{VARIABLE} is not set.", hint="The agent of a node sets it for the runners it starts.")
        return RunnerWork.read(Path(named)), Path(named)
