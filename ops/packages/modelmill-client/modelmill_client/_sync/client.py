# Made from _async by generate.py: change that.
"""The client: upload, convert, find jobs, sweep over options."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Union
from urllib.parse import quote

import httpx

from modelmill_client import waits
from modelmill_client._sync.archived_job import ArchivedJob
from modelmill_client._sync.job import Job
from modelmill_client._sync.resumable import send_file
from modelmill_client._sync.transport import DEFAULT_URL, OnBytes, Transport
from modelmill_client.archive_row import ArchiveRow, row_of
from modelmill_client.comparison import Comparison, compare_records
from modelmill_client.errors import JobNotFound, NotFound, WaitedEnough
from modelmill_client.inputs import REPORT_FOLDER, PathLike, packed, parts, weights_beside, zipped

PAGE = 200
RESUMABLE_BYTES = 64 << 20
"""From this size on model and images are sent so that they can go on where they broke off."""
Record = dict[str, Any]
Images = Union[PathLike, Sequence[PathLike]]


class Modelmill:
    """A service, and who asks it.

    Args:
        url: Address of the service; default: MODELMILL_URL, or http://127.0.0.1:8080.
        token: An API token; else MODELMILL_TOKEN. The service knows who is on its own machine without one.
        retries: How often a request is tried again that did not get through, or that came at a bad time. What creates
            is created once however often it is tried.
        transport: Of httpx, for tests.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        retries: int = 3,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        address = os.environ.get("MODELMILL_URL") if url is None else url
        known = os.environ.get("MODELMILL_TOKEN", "") if token is None else token
        self.transport = Transport(address or DEFAULT_URL, known.strip(), retries=retries, transport=transport)

    def __enter__(self) -> Modelmill:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close its connections."""
        self.transport.close()

    def convert(
        self,
        model: PathLike,
        images: Images,
        *,
        goal: str = "",
        report_images: PathLike | None = None,
        name: str = "",
        tags: Sequence[str] = (),
        options: Mapping[str, Any] | None = None,
        no_cache: bool = False,
    ) -> Job:
        """Upload a model with its reference pictures, and start its conversion.

        Args:
            model: An ONNX file; weights that lie beside it under its name go with it.
            images: A folder, a zip, or files: pictures, .npy, .npz; and a labels.csv or labels.json of what they show.
            goal: As `snr>=20` (the default), `none`; of the toolchain host; short for options["quantization"]["goal"].
            report_images: A folder of images that neither calibrate nor choose: the search reports on them.
            name: Of the job; the model's when left out.
            tags: To find it by.
            options: As of POST /jobs.
            no_cache: Run every stage, even if its result is in the cache.

        Returns:
            The job, which has only begun: see `wait`.

        Raises:
            NoImages: There are none.
            BadInput: Model, images or options are no good; code, hint and detail say how.
            TooManyJobs: As many are under way as may be.
        """
        path = Path(model)
        several = [images] if isinstance(images, (str, os.PathLike)) else list(images)
        report = None if report_images is None else Path(report_images)
        with packed([Path(each) for each in several], report=report) as archive:
            keys = self.upload(path, archive)
        chosen = dict(options or {})
        given = {"goal": goal, "report_images": "" if report is None else REPORT_FOLDER}
        if any(given.values()):
            own = {name: value for name, value in given.items() if value}
            chosen["quantization"] = {**chosen.get("quantization", {}), **own}
        label = (name or path.stem)[:200]
        model_key, quant_key = keys["model_key"], keys["quant_key"]
        return self.submit(model_key, quant_key, options=chosen, name=label, tags=tags, no_cache=no_cache)

    def upload(self, model: Path, images: Path, on_bytes: OnBytes = lambda _: None) -> Record:
        """Send both from disk, in constant memory. Large ones go on where they broke off.

        Args:
            model: An ONNX file, or a zip of one and its weights.
            images: One file.
            on_bytes: Gets the number of bytes of each piece sent.

        Returns:
            model_key, quant_key, and more when they were sent at once.
        """
        weights = weights_beside(model) if model.suffix == ".onnx" else []
        if sum(path.stat().st_size for path in (model, *weights, images)) >= RESUMABLE_BYTES:
            return self._upload_resumably(model, weights, images, on_bytes)
        files = [("model", model), *(("weights", path) for path in weights), ("images", images)]
        return self.transport.json("POST", "/uploads", body=lambda: parts(files, on_bytes))

    def _upload_resumably(self, model: Path, weights: Sequence[Path], images: Path, on_bytes: OnBytes) -> Record:
        members = [(path.name, path) for path in (model, *weights)]
        with zipped(members) if weights else contextlib.nullcontext(model) as whole:
            model_key = send_file(self.transport, "model", whole, on_bytes)
        return {"model_key": model_key, "quant_key": send_file(self.transport, "images", images, on_bytes)}

    def submit(
        self,
        model_key: str,
        quant_key: str,
        *,
        options: Mapping[str, Any] | None = None,
        name: str = "",
        tags: Sequence[str] = (),
        no_cache: bool = False,
    ) -> Job:
        """Start a conversion of what was uploaded. no_cache: do every stage, also what was done before."""
        inputs = {"model_key": model_key, "quant_key": quant_key}
        body: Record = {**inputs, "name": name, "tags": list(tags), "options": dict(options or {})}
        if no_cache:
            body["no_cache"] = True
        return Job(self.transport, self.transport.json("POST", "/jobs", json=body))

    def job(self, job_id: str) -> Job:
        """Open a job.

        Raises:
            JobNotFound: There is none with this id.
        """
        return Job(self.transport, self.transport.json("GET", f"/jobs/{quote(job_id, safe='')}"))

    def jobs(self, *, limit: int = 50, **filters: str | None) -> Iterator[Job]:
        """Newest first, page by page, at most `limit`. filters: status, toolchain, platform, q."""
        for record in self.pages("/jobs", "jobs", limit=limit, filters=filters):
            yield Job(self.transport, record)

    def archive(
        self,
        *,
        limit: int = 50,
        q: str | None = None,
        tag: str | None = None,
        model: str | None = None,
        toolchain: str | None = None,
        platform: str | None = None,
        verdict: str | None = None,
        snr_min_db: float | None = None,
        snr_max_db: float | None = None,
        since: str | None = None,
        until: str | None = None,
        kept: bool | None = None,
    ) -> Iterator[ArchiveRow]:
        """Completed jobs, also from before a restart of the system, the last completed one first.

        Args:
            limit: How many at most.
            q: Text in the id, the name or the tags.
            tag: A tag, as a whole.
            model: The beginning of the SHA-256 of the model.
            toolchain: host or kneron.
            platform: The chip: 520, 530, 630, 720, 730.
            verdict: PASSED or BELOW_RULE.
            snr_min_db: Lowest SNR of the worst output, in dB.
            snr_max_db: Largest SNR of the worst output, in dB.
            since: Completed at this time or later, as ISO 8601 with its time zone.
            until: Completed before this time.
            kept: Only jobs that are kept permanently, or only others.
        """
        texts = {"q": q, "tag": tag, "model": model, "toolchain": toolchain, "platform": platform, "verdict": verdict}
        times = {"since": since, "until": until, "kept": None if kept is None else str(kept).lower()}
        filters = {**texts, **times, "snr_min_db": snr_min_db, "snr_max_db": snr_max_db}
        for entry in self.pages("/archive", "jobs", limit=limit, filters=filters):
            yield row_of(entry)

    def archived(self, job_id: str) -> ArchivedJob:
        """Open a job of the archive.

        Raises:
            NotFound: There is none with this id.
        """
        return ArchivedJob(self.transport, self.transport.json("GET", f"/archive/{quote(job_id, safe='')}"))

    def change_jobs(
        self, verb: str, job_ids: Sequence[str], *, add_tags: Sequence[str] = (), remove_tags: Sequence[str] = ()
    ) -> Record:
        """Cancel, delete, tag, keep or unkeep many.

        Returns:
            done: their ids; problems: job_id, code, message, hint of each that it could not be done to.
        """
        tags = {"add_tags": list(add_tags), "remove_tags": list(remove_tags)}
        return self.transport.json("POST", "/jobs/bulk", json={"verb": verb, "job_ids": list(job_ids), **tags})

    def compare(self, *jobs: str | Job | ArchivedJob) -> Comparison:
        """The options in which jobs differ, and what was measured of each.

        Args:
            jobs: Their ids, also of jobs that only the archive has, or jobs, which are asked for anew; a notebook shows
                the answer as a table.

        Raises:
            JobNotFound: There is none of this id.
        """
        ids = [job if isinstance(job, str) else job.id for job in jobs]
        return compare_records([(self.stored(job_id)).record for job_id in ids])

    def stored(self, job_id: str) -> Job | ArchivedJob:
        """Open a job, or else the job of the archive with this id.

        Raises:
            JobNotFound: There is neither.
        """
        try:
            return self.job(job_id)
        except JobNotFound as unknown:
            try:
                return self.archived(job_id)
            except NotFound:
                raise unknown from None

    def sweep(
        self,
        models: Sequence[Mapping[str, Any]],
        options: Sequence[Mapping[str, Any]],
        *,
        name: str = "",
        tags: Sequence[str] = (),
        no_cache: bool = False,
    ) -> Record:
        """Convert every model with every set of options.

        Args:
            models: name, model_key, quant_key, and options that all its jobs share.
            options: name, and options that it changes.
            name: Of the sweep.
            tags: Of its jobs.
            no_cache: Run every stage, even if its result is in the cache.

        Returns:
            sweep_id, rows, …
        """
        body: Record = {"name": name, "tags": list(tags), "models": list(models), "options": list(options)}
        if no_cache:
            body["no_cache"] = True
        return self.transport.json("POST", "/sweeps", json=body)

    def sweeps(self, *, limit: int = 50) -> Iterator[Record]:
        """Newest first, page by page, at most `limit`: sweep_id, name, and how many rows are in which state."""
        for sweep in self.pages("/sweeps", "sweeps", limit=limit):
            yield sweep

    def sweep_table(self, sweep_id: str) -> list[Record]:
        """The rows of a sweep, as they are now."""
        return list((self.transport.json("GET", f"/sweeps/{quote(sweep_id, safe='')}"))["rows"])

    def wait_for_sweep(self, sweep_id: str, *, timeout_s: float | None = None) -> list[Record]:
        """The rows of a sweep when all its jobs have ended.

        Raises:
            WaitedEnough: The time is over; they go on.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            sweep = self.transport.json("GET", f"/sweeps/{quote(sweep_id, safe='')}")
            if sweep["has_ended"]:
                return list(sweep["rows"])
            if deadline is not None and time.monotonic() > deadline:
                raise WaitedEnough("the sweep has not ended within the given time", hint="It goes on.")
            time.sleep(waits.POLL_S)

    def system(self) -> Record:
        """Returns workers, queues, health and versions."""
        return self.transport.json("GET", "/system")

    def pages(
        self,
        path: str,
        field: str,
        *,
        limit: int,
        page_size: int = PAGE,
        filters: Mapping[str, str | float | None] = {},
    ) -> Iterator[Record]:
        """The entries of a list that comes in pages, at most `limit`.

        Args:
            path: Of the list.
            field: Under which the entries stand in the answer.
            limit: How many.
            page_size: How many are asked for at once, at most.
            filters: Parameters of the query; empty ones are left out.
        """
        params: Record = {key: value for key, value in filters.items() if value not in (None, "")}
        left = limit
        while left > 0:
            page = self.transport.json("GET", path, params={**params, "limit": min(left, page_size)})
            for entry in page[field]:
                yield entry
            left -= len(page[field])
            if not page["next_cursor"]:
                return
            params["cursor"] = page["next_cursor"]
