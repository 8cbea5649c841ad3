"""Secrets of environments: files of the operator's, read when an attempt starts, and kept out of all that we copy.

Ray is given their values, for the program is to have them, and shows them to who has its token. In what comes back from
it (logs, causes) they are blotted out, whichever task had them, before anything is written or shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from app.training.errors import RayRefused, SecretUnusable
from app.training.gateway import Gateway, PlacementGroup, RayJob, Submission
from app.training.model import Node
from app.training.model.node_use import NodeUse

BLOT = b"***"
LEAST_BYTES, MOST_BYTES = 8, 64 << 10
"""A shorter one would be blotted out wherever its letters come by chance."""


class Secrets:
    """
    Args:
        folder: with a file for each secret, as Kubernetes, Docker and systemd put them; None: there are none.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._seen: set[bytes] = set()

    def resolve(self, names: Mapping[str, str]) -> dict[str, str]:
        """Returns the values by environment variable, as they are now.

        Args:
            names: of secrets, by environment variable.

        Raises:
            SecretUnusable: One cannot be read; the error names it.
        """
        return {variable: self._read_value(name) for variable, name in names.items()}

    def blot(self, data: bytes) -> bytes:
        """Without any value that was ever resolved here, or that is in the folder now."""
        for value in sorted(self._seen | self._read_current(), key=len, reverse=True):
            data = data.replace(value, BLOT)
        return data

    def blotted(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """The same of a stream, also where a value lies across two of its chunks."""
        kept = b""
        longest = max((len(value) for value in self._seen | self._read_current()), default=0)
        for chunk in chunks:
            kept = self.blot(kept + chunk)
            ready = len(kept) - max(0, longest - 1)
            if ready > 0:
                yield kept[:ready]
                kept = kept[ready:]
        if kept:
            yield kept

    def _read_value(self, name: str) -> str:
        if self._folder is None:
            raise SecretUnusable(
                f"The secret {name} cannot be read: this installation has none.",
                hint="The operator names their folder with MODELMILL_TRAINING_SECRETS.",
            )
        try:
            data = (self._folder / name).read_bytes()[: MOST_BYTES + 1].rstrip(b"\r\n")
            text = data.decode()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise SecretUnusable(f"The secret {name} cannot be read: {reason}.", hint="Ask the operator.") from None
        if not LEAST_BYTES <= len(data) <= MOST_BYTES or "\0" in text:
            problem = f"a secret has {LEAST_BYTES} to {MOST_BYTES} bytes, and no NUL"
            raise SecretUnusable(f"The secret {name} cannot be used: {problem}.", hint="Ask the operator.")
        self._seen |= _split_lines(data)
        return text

    def _read_current(self) -> set[bytes]:
        if self._folder is None:
            return set()
        try:
            files = [path for path in self._folder.iterdir() if path.is_file()]
            return {part for path in files for part in _split_lines(path.read_bytes()[:MOST_BYTES].rstrip(b"\r\n"))}
        except OSError:
            return set()


def _split_lines(data: bytes) -> set[bytes]:
    """A secret of several lines comes line by line into a log."""
    return {part for part in (data, *data.splitlines()) if len(part) >= LEAST_BYTES}


class DiscreetGateway:
    """A Gateway (see there) from which no secret comes back."""

    def __init__(self, gateway: Gateway, secrets: Secrets) -> None:
        self._gateway = gateway
        self._secrets = secrets

    def submit(self, submission: Submission) -> None:
        try:
            self._gateway.submit(submission)
        except RayRefused as error:
            raise RayRefused(self._mask_text(error.message)) from None

    def job(self, submission_id: str) -> RayJob | None:
        job = self._gateway.job(submission_id)
        return replace(job, message=self._mask_text(job.message)) if job is not None and job.message else job

    def stop(self, submission_id: str) -> None:
        self._gateway.stop(submission_id)

    def nodes(self) -> tuple[Node, ...]:
        return self._gateway.nodes()

    def use(self) -> Mapping[str, NodeUse]:
        return self._gateway.use()

    def placement_groups(self) -> tuple[PlacementGroup, ...]:
        return self._gateway.placement_groups()

    def log_tail(self, job: RayJob, lines: int) -> bytes:
        return self._secrets.blot(self._gateway.log_tail(job, lines))

    def log(self, job: RayJob) -> Iterator[bytes]:
        return self._secrets.blotted(self._gateway.log(job))

    def remark(self) -> str:
        return self._gateway.remark()

    def close(self) -> None:
        self._gateway.close()

    def _mask_text(self, text: str) -> str:
        return self._secrets.blot(text.encode("utf-8", "surrogateescape")).decode("utf-8", "replace")
