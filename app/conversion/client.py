"""A client of the conversion API for programs and the command line. Prints nothing. Its errors: see Remote."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import httpx

from app.kit.cli.api_client import ApiClient, ApiError, OnBytes, WaitedEnough
from app.kit.cli.command import Unreachable

FINISHED = ("COMPLETED", "FAILED")
POLL_S = 3.0
SILENCE_S = 45.0
"""The stream pings every 15 s; after this long without one it counts as broken."""
PATIENCE_S = 60.0
"""How long a wait for a job outlasts a service that does not answer."""
Record = dict[str, Any]


@dataclass(frozen=True)
class LogPart:
    text: bytes
    next_offset: int
    is_complete: bool


class ConversionClient(ApiClient):
    def upload(self, model: Path, images: Path, on_bytes: OnBytes = lambda _: None) -> dict[str, Any]:
        """Send both from disk, in constant memory. on_bytes gets the number of bytes of each piece sent.

        Returns {"upload_id", "model_key", "quant_key", "files"}.
        """
        with model.open("rb") as model_file, images.open("rb") as images_file:
            files = [
                ("model", (model.name, _Counted(model_file, on_bytes))),
                ("images", (images.name, _Counted(images_file, on_bytes))),
            ]
            return self._json("POST", "/uploads", files=files)

    def submit(
        self, model_key: str, quant_key: str, *, options: dict[str, Any], name: str = "", tags: tuple[str, ...] = ()
    ) -> Record:
        body = {"model_key": model_key, "quant_key": quant_key, "name": name, "tags": list(tags), "options": options}
        return self._json("POST", "/jobs", json=body)

    def job(self, job_id: str) -> Record:
        return self._json("GET", f"/jobs/{job_id}")

    def jobs(self, *, limit: int = 50, **filters: str | None) -> Iterator[Record]:
        """Newest first, page by page, at most `limit`. filters: status, toolchain, platform, q."""
        params: dict[str, Any] = {key: value for key, value in filters.items() if value}
        left = limit
        while left > 0:
            page = self._json("GET", "/jobs", params={**params, "limit": min(left, 200)})
            yield from page["jobs"]
            left -= len(page["jobs"])
            if not page["next_cursor"]:
                return
            params["cursor"] = page["next_cursor"]

    def cancel(self, job_id: str) -> Record:
        return self._json("POST", f"/jobs/{job_id}/cancel")

    def log(self, job_id: str, step: str, offset: int = 0) -> LogPart:
        with self._answer("GET", f"/jobs/{job_id}/logs/{step}", params={"offset": offset}) as answer:
            text = answer.read()
            headers = answer.headers
        next_offset = int(headers.get("X-Log-Next-Offset", offset + len(text)))
        return LogPart(text, next_offset, headers.get("X-Log-Complete") == "true")

    def artifacts(self, job_id: str) -> list[dict[str, Any]]:
        artifacts: list[dict[str, Any]] = self._json("GET", f"/jobs/{job_id}/artifacts")["artifacts"]
        return artifacts

    def actions(self, job_id: str) -> dict[str, Any]:
        """{"actions", "candidates"}: what to do next, and what a search tried."""
        return self._json("GET", f"/jobs/{job_id}/actions")

    def artifact_json(self, job_id: str, name: str) -> dict[str, Any]:
        """A stage's report: onnx.json, bie.json, nef.json."""
        return self._json("GET", f"/jobs/{job_id}/artifacts/{name}")

    def download(self, job_id: str, artifact: dict[str, Any], folder: Path, on_bytes: OnBytes = lambda _: None) -> Path:
        """Into folder/name, under another name until its sha256 has been checked."""
        name = Path(artifact["name"]).name
        return self._save(f"/jobs/{job_id}/artifacts/{name}", folder / name, artifact["sha256"], on_bytes)

    def watch(self, job_id: str, *, timeout_s: float | None = None) -> Iterator[Record]:
        """The record at once and at every change, until the job has ended; a broken stream is taken up again.

        Falls back to asking every 3 s where server-sent events do not come through. Raises WaitedEnough, Unreachable
        once the service was away for a minute, ApiError (404 when the record is gone).
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        has_stream, heard_at = True, time.monotonic()
        while True:
            try:
                for record in self._frames(job_id, deadline) if has_stream else [self.job(job_id)]:
                    yield record
                    heard_at = time.monotonic()
                    if record["status"] in FINISHED:
                        return
            except Unreachable as error:
                if time.monotonic() - heard_at > PATIENCE_S:
                    raise
                has_stream = has_stream and not isinstance(error, _NoStream)
            _require_time(deadline)
            time.sleep(POLL_S)

    def _frames(self, job_id: str, deadline: float | None) -> Iterator[Record]:
        """The frames of one stream. Ends when the stream does."""
        headers = {"Accept": "text/event-stream"}
        timeout = httpx.Timeout(connect=5, read=SILENCE_S, write=30, pool=5)
        with self._answer("GET", f"/jobs/{job_id}/events", headers=headers, timeout=timeout) as answer:
            if not answer.headers.get("Content-Type", "").startswith("text/event-stream"):
                raise _NoStream("no event stream comes through")
            for event, data in _events(answer.iter_lines(), deadline):
                if event == "gone":
                    raise ApiError(404, json.loads(data)["error"])
                if event in ("status", "done"):
                    yield json.loads(data)


class _NoStream(Unreachable):
    code = "NO_STREAM"


class _Counted:
    """A file that tells how much of it was read. httpx asks for its length through fileno."""

    def __init__(self, file: BinaryIO, on_bytes: OnBytes) -> None:
        self._file = file
        self._on_bytes = on_bytes
        self.fileno = file.fileno
        self.seek = file.seek
        self.tell = file.tell

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self._on_bytes(len(data))
        return data


def _events(lines: Iterator[str], deadline: float | None) -> Iterator[tuple[str, str]]:
    event, data = "message", list[str]()
    for line in lines:
        _require_time(deadline)
        if not line:
            if data:
                yield event, "\n".join(data)
            event, data = "message", []
        elif line.startswith("event:"):
            event = line[6:].strip()
        elif line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))


def _require_time(deadline: float | None) -> None:
    if deadline is not None and time.monotonic() > deadline:
        raise WaitedEnough("the job has not ended within the given time", hint="It goes on; see `modelmill jobs list`.")
