"""The conversion API for the command line, with `modelmill_client`: records as returned by the service. Prints
nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from modelmill_client import ArchivedJob, Job
from modelmill_client.log_part import LogPart
from modelmill_client.progress import FINISHED

from app.kit.cli.api_client import ApiClient, OnBytes, command_errors
from app.kit.text.json_values import JsonObject

__all__ = ["FINISHED", "ConversionClient", "LogPart"]


class ConversionClient(ApiClient):
    """Its errors are those of ApiClient."""

    def upload(self, model: Path, images: Path, on_bytes: OnBytes = lambda _: None) -> JsonObject:
        """Send both from disk, in constant memory. on_bytes gets the number of bytes of each piece sent.

        Returns {"upload_id", "model_key", "quant_key", "files"}.
        """
        with command_errors():
            return self._client.upload(model, images, on_bytes)

    def upload_pictures(self, images: Path) -> JsonObject:
        """As upload, for a model that is there already."""
        with images.open("rb") as file:
            return self._json("POST", "/uploads", files=[("images", (images.name, file))])

    def fetch_model(self, source: str) -> JsonObject:
        """Have the service fetch a model. Returns the transfer, which `transfer` follows."""
        return self._json("POST", "/transfers", json={"source": source})

    def transfer(self, transfer_id: str) -> JsonObject:
        return self._json("GET", f"/transfers/{transfer_id}")

    def submit(
        self,
        model_key: str,
        quant_key: str,
        *,
        options: JsonObject,
        name: str = "",
        tags: tuple[str, ...] = (),
        no_cache: bool = False,
    ) -> JsonObject:
        """Submit a job of files that are uploaded already.

        Args:
            model_key: as `upload` returned it.
            quant_key: as `upload` returned it.
            options: as POST /jobs takes them; what is left out has the service's default.
            name: empty: the service takes the model's.
            no_cache: compute every stage, whatever has been computed before.

        Returns:
            The job's record.
        """
        chosen: JsonObject = {"options": options, "name": name, "tags": tags, "no_cache": no_cache}
        with command_errors():
            return self._client.submit(model_key, quant_key, **chosen).record

    def job(self, job_id: str) -> JsonObject:
        with command_errors():
            return self._client.job(job_id).record

    def stored(self, job_id: str) -> JsonObject:
        """Returns the record of a job, also of one that only the archive has."""
        with command_errors():
            return self._client.stored(job_id).record

    def jobs(self, *, limit: int = 50, **filters: str | None) -> Iterator[JsonObject]:
        """Newest first, page by page, at most `limit`.

        Args:
            filters: status, toolchain, platform, q.
        """
        with command_errors():
            yield from (job.record for job in self._client.jobs(limit=limit, **filters))

    def cancel(self, job_id: str) -> JsonObject:
        with command_errors():
            return self._make_job(job_id).cancel().record

    def edit(self, job_id: str, **values: Any) -> JsonObject:
        """values: name, tags, notes, keep."""
        with command_errors():
            return self._make_job(job_id).edit(**values).record

    def share(self, job_id: str, *, days: int, label: str) -> str:
        """A link to it, which is shown this once."""
        with command_errors():
            return self._make_job(job_id).share(days=days, label=label)

    def log(self, job_id: str, step: str, offset: int = 0) -> LogPart:
        with command_errors():
            return self._make_job(job_id).log(step, offset)

    def actions(self, job_id: str) -> JsonObject:
        """{"actions", "candidates"}: what to do next, and what a search tried."""
        with command_errors():
            return self._make_job(job_id).actions()

    def artifact_json(self, job_id: str, name: str) -> JsonObject:
        """A stage's report: onnx.json, bie.json, nef.json."""
        with command_errors():
            return self._make_job(job_id).report(name.removesuffix(".json"))

    def download(self, job_id: str, artifact: JsonObject, folder: Path, on_bytes: OnBytes = lambda _: None) -> Path:
        """Download an artifact into folder/name, under another name until its sha256 has been checked.

        Args:
            artifact: its entry in the job's record.
            on_bytes: called with the size of each chunk.

        Returns:
            The file.
        """
        with command_errors():
            return self._make_job(job_id).download_file(artifact, folder, on_bytes)

    def download_files(self, record: JsonObject, folder: Path, names: Sequence[str] | None) -> dict[str, Path]:
        """As `Job.download`."""
        with command_errors():
            return self._make_job(record["job_id"]).download(folder, names=names)

    def watch(self, job_id: str, *, timeout_s: float | None = None) -> Iterator[JsonObject]:
        """The record at once and at every change, until the job has ended; see Job.watch."""
        with command_errors():
            yield from self._make_job(job_id).watch(timeout_s=timeout_s)

    def _make_job(self, job_id: str) -> Job:
        """By its id alone: nothing is asked for it."""
        return Job(self._client.transport, {"job_id": job_id, "status": ""})


class ArchiveClient(ApiClient):
    def jobs(self, *, limit: int = 50, **filters: str | float | None) -> Iterator[JsonObject]:
        """The last finished first, page by page, at most `limit`.

        Args:
            filters: as GET /archive has them.
        """
        yield from self._pages("/archive", "jobs", limit=limit, filters=filters)

    def job(self, job_id: str) -> JsonObject:
        """{"job": as it was at its end, "is_kept"}."""
        with command_errors():
            archived = self._client.archived(job_id)
        return {"job": archived.record, "is_kept": archived.is_kept}

    def download(self, job_id: str, artifact: JsonObject, folder: Path) -> Path:
        """Into folder/name, under another name until its sha256 has been checked."""
        with command_errors():
            return self._make_job(job_id).download_file(artifact, folder)

    def download_files(self, record: JsonObject, folder: Path, names: Sequence[str] | None) -> dict[str, Path]:
        """As `ArchivedJob.download`."""
        with command_errors():
            return ArchivedJob(self._client.transport, {"job": record, "is_kept": False}).download(folder, names=names)

    def edit(self, job_id: str, **values: Any) -> JsonObject:
        """values: name, tags, notes, keep. The record as it is then."""
        with command_errors():
            return self._make_job(job_id).edit(**values).record

    def remove(self, job_id: str) -> None:
        with command_errors():
            self._make_job(job_id).delete()

    def convert_again(self, job_id: str) -> JsonObject:
        """The new job."""
        with command_errors():
            return self._make_job(job_id).convert_again().record

    def _make_job(self, job_id: str) -> ArchivedJob:
        """By its id alone, as ConversionClient has it."""
        return ArchivedJob(self._client.transport, {"job": {"job_id": job_id}, "is_kept": False})
