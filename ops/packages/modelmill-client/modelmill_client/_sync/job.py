# Made from _async by generate.py: change that.
"""A job of the service: what is known of it, and what can be done with it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import httpx

from modelmill_client import waits
from modelmill_client._sync.stored_job import StoredJob
from modelmill_client.errors import JobFailed, NoStream, Unreachable, WaitedEnough, error_of
from modelmill_client.event_stream import EventParser
from modelmill_client.log_part import LogPart
from modelmill_client.progress import FINISHED, ProgressView, html_of, line_of

Record = dict[str, Any]


class Job(StoredJob):
    """record: as the service last told it."""

    collection = "/jobs"

    @property
    def status(self) -> str:
        """ONNX, BIE or NEF while it is in that stage; COMPLETED; FAILED."""
        return str(self.record["status"])

    @property
    def progress(self) -> int:
        """0..100."""
        return int(self.record.get("progress") or 0)

    @property
    def has_ended(self) -> bool:
        return self.status in FINISHED

    def __repr__(self) -> str:
        return f"<Job {line_of(self.record)}>"

    def _repr_html_(self) -> str:
        return html_of(self.record)

    def refresh(self) -> Job:
        """Ask the service how it is now."""
        self.record = self._transport.json("GET", self._path)
        return self

    def wait(self, *, timeout_s: float | None = None, progress: bool = False, check: bool = True) -> Job:
        """Until it has ended.

        Args:
            timeout_s: How long at most, in seconds.
            progress: Show how it goes, on stderr or in the notebook.
            check: Raise JobFailed if it failed.

        Raises:
            JobFailed: It failed, or was cancelled.
            WaitedEnough: The time is over; it goes on.
            JobNotFound: The service was restarted and has forgotten it.
            Unreachable: The service was away for a minute.
        """
        view = ProgressView() if progress else None
        for record in self.watch(timeout_s=timeout_s):
            if view is not None:
                view.show(record)
        if check:
            self.raise_for_failure()
        return self

    def raise_for_failure(self) -> None:
        """Check that it has not failed.

        Raises:
            JobFailed: It has.
        """
        if self.status != "FAILED":
            return
        error = self.record.get("error") or {}
        failure = JobFailed(
            f"Job {self.name or self.id} failed at {str(error.get('step', '')).upper()}: {error.get('reason', '')}.",
            hint=str(error.get("hint") or ""),
            detail=error.get("detail"),
        )
        failure.code = str(error.get("code") or failure.code)
        raise failure

    def watch(self, *, timeout_s: float | None = None) -> Iterator[Record]:
        """The record at every change, until the job has ended; a broken stream is taken up again.

        Falls back to asking now and then where server-sent events do not come through.

        Raises:
            WaitedEnough: The time is over.
            Unreachable: The service was away for a minute.
            JobNotFound: The record is gone.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        has_stream, heard_at = True, time.monotonic()
        while True:
            records: Any = self._frames(deadline) if has_stream else self._looks()
            try:
                for record in records:
                    self.record = record
                    yield record
                    heard_at = time.monotonic()
                    if self.has_ended:
                        return
            except Unreachable as error:
                if time.monotonic() - heard_at > waits.PATIENCE_S:
                    raise
                has_stream = has_stream and not isinstance(error, NoStream)
            finally:
                records.close()
            _require_time(deadline)
            time.sleep(waits.POLL_S)

    def cancel(self) -> Job:
        """End it, queued or running.

        Raises:
            Conflict: It has ended already.
        """
        self.record = self._transport.json("POST", f"{self._path}/cancel")
        return self

    def delete(self) -> None:
        """Forget it and its files.

        Raises:
            Conflict: It has not ended.
        """
        self._transport.json("DELETE", self._path)

    def edit(self, **values: Any) -> Job:
        """values: name, tags, notes, keep; what is left out stays."""
        self.record = self._transport.json("PATCH", self._path, json=values)
        return self

    def log(self, step: str, offset: int = 0) -> LogPart:
        """The log of a stage (onnx, bie or nef) from an offset in bytes on."""
        with self._transport.answer("GET", f"{self._path}/logs/{step}", params={"offset": offset}) as answer:
            text = answer.read()
            next_offset = int(answer.headers.get("X-Log-Next-Offset", offset + len(text)))
            return LogPart(text, next_offset, answer.headers.get("X-Log-Complete") == "true")

    def artifacts(self) -> list[Record]:
        """Its files: name, size_bytes, sha256."""
        return list((self._transport.json("GET", f"{self._path}/artifacts"))["artifacts"])

    def actions(self) -> Record:
        """What to do next about it, and what a search for its settings tried: actions, candidates."""
        return self._transport.json("GET", f"{self._path}/actions")

    def front(self, *, by_task: bool = False) -> list[Record]:
        """The candidates of its search that no other beats in quality, size and latency together.

        by_task: quality is the loss of the task (classes, boxes, masks, labels), not SNR.
        """
        name = "is_on_task_front" if by_task else "is_on_front"
        return [one for one in (self.actions())["candidates"] if one[name]]

    def _looks(self) -> Iterator[Record]:
        yield (self.refresh()).record

    def _frames(self, deadline: float | None) -> Iterator[Record]:
        """The frames of one stream. Ends when the stream does."""
        timeout = httpx.Timeout(connect=5, read=waits.SILENCE_S, write=30, pool=5)
        headers, parser = {"Accept": "text/event-stream"}, EventParser()
        path = f"{self._path}/events"
        with self._transport.answer("GET", path, headers=headers, timeout=timeout) as answer:
            if not answer.headers.get("Content-Type", "").startswith("text/event-stream"):
                raise NoStream("no event stream comes through")
            for line in answer.iter_lines():
                _require_time(deadline)
                whole = parser.feed(line)
                if whole is None:
                    continue
                event, data = whole
                if event == "gone":
                    raise error_of(404, json.loads(data)["error"])
                if event in ("status", "done"):
                    yield json.loads(data)


def _require_time(deadline: float | None) -> None:
    if deadline is not None and time.monotonic() > deadline:
        raise WaitedEnough("the job has not ended within the given time", hint="It goes on.")
