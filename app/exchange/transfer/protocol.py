"""The protocol between a transfer's process and its starter: one request, then lines of JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from app.exchange.errors import SourceTooLarge

CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class Access:
    """The operator's settings: addresses and accounts of hubs and registries, and what may be fetched."""

    urls: tuple[str, ...] = ()
    networks: str = ""
    hub_endpoint: str = ""
    hub_token: str = ""
    hub_repositories: tuple[str, ...] = ()
    mlflow_uri: str = ""
    mlflow_token: str = ""
    s3_endpoint: str = ""
    s3_access_key: str = ""
    s3_secret_key: str = ""
    s3_buckets: tuple[str, ...] = ()


@dataclass
class Progress:
    """Reports the number of bytes, and refuses more than allowed."""

    max_bytes: int
    done_bytes: int = 0
    total_bytes: int | None = None

    def expect(self, total_bytes: int | None) -> None:
        """Checks the size before anything is fetched.

        Raises:
            SourceTooLarge: It is too large.
        """
        self.total_bytes = total_bytes
        if total_bytes is not None and total_bytes > self.max_bytes:
            raise self._too_large()
        self.say("fetching")

    def add(self, count: int) -> None:
        self.done_bytes += count
        if self.done_bytes > self.max_bytes:
            raise self._too_large()
        self.say("fetching")

    def say(self, message: str) -> None:
        tell(progress={"message": message, "done_bytes": self.done_bytes, "total_bytes": self.total_bytes})

    def _too_large(self) -> SourceTooLarge:
        return SourceTooLarge(
            f"The model is larger than the {self.max_bytes} bytes that are accepted here.",
            hint="The operator can raise MODELMILL_MAX_MODEL_BYTES.",
        )


@dataclass(frozen=True)
class Fetched:
    """The result of fetching."""

    model: Path
    """The model's file."""
    beside: dict[str, Path] = field(default_factory=dict)
    """The files with its weights, by their path relative to it."""


def tell(**message: Any) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def chunks_of(file: BinaryIO) -> Iterator[bytes]:
    while chunk := file.read(CHUNK_BYTES):
        yield chunk
