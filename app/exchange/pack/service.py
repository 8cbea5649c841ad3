"""The creation of packs."""

from __future__ import annotations

import json
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.conversion import object_keys
from app.conversion.intake.entry_points import EntryPoint
from app.conversion.model import JobRecord, Stage, Status
from app.conversion.service import Conversion
from app.conversion.service.intake_sandbox import aborts_refused
from app.exchange.errors import NothingToExport
from app.exchange.pack.device_results import DeviceResults
from app.exchange.pack.requests import PackRequest
from app.kit.text.json_values import JsonObject
from app.settings import Settings

BUILD = EntryPoint[PackRequest, JsonObject]("app.exchange.pack.contents:build")
README = """\
{name}, converted by Modelmill (job {job_id}).

out.nef              the model
preprocess.json      how a picture becomes its input; the same in preprocess.py (NumPy) and preprocess.c with its .h
pack.json            what this is, which outputs are expected and how far they may differ
tests/N              picture, input and expected outputs
labels.txt           names of the classes, where they are known
smoke.py             runs the tests: {how}. `python smoke.py --report` tells the page of the job.
"""


class Packs:
    def __init__(self, settings: Settings, conversion: Conversion) -> None:
        self._settings = settings
        self._conversion = conversion
        self.device_results = DeviceResults(settings, conversion.jobs)

    @contextmanager
    def built(self, user: str, job_id: str, *, url: str) -> Iterator[Path]:
        """Creates the pack; the zip exists within the block.

        Args:
            url: of this service, as the caller reaches it; empty: the pack cannot report.

        Raises:
            JobNotFound: The user has no such job.
            NothingToExport: It has not completed.
            BadInput: The model cannot be tested here.
        """
        record = self._conversion.jobs.known(job_id, user)
        nef = f"out.{Stage.NEF.step}"
        if record.status is not Status.COMPLETED or nef not in record.artifacts:
            raise NothingToExport(f"Job {job_id} has made no NEF to pack.", hint="Wait for a good end.")
        with self._conversion.uploads.intake.folder("pack-") as folder:
            contents = folder / "pack"
            contents.mkdir()
            manifest = {**self._manifest(record, url), **self._make_contents(record, folder, contents)}
            (contents / "pack.json").write_text(json.dumps(manifest, indent=2), "utf-8")
            how = "onnxruntime and NumPy are needed" if _is_host(record) else "the vendor's kp and NumPy are needed"
            readme = README.format(name=record.name or record.job_id, job_id=record.job_id, how=how)
            (contents / "README.txt").write_text(readme, "utf-8")
            yield _zip(contents, folder / "pack.zip")

    def kept(self, user: str, job_id: str, *, url: str) -> Path:
        """Creates the pack as a file, which the caller has to delete with its folder."""
        self._settings.work.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder = Path(tempfile.mkdtemp(prefix="packed-", dir=self._settings.work))
        try:
            with self.built(user, job_id, url=url) as zip_file:
                return Path(shutil.move(zip_file, folder))
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def _make_contents(self, record: JobRecord, folder: Path, contents: Path) -> JsonObject:
        """Creates everything else in the sandbox, and returns its entries of the manifest."""
        get = self._conversion.jobs.objects.get_file
        get(record.artifacts["out.nef"].key, contents / "out.nef")
        get(object_keys.input_(record.job_id, object_keys.IMAGES), folder / object_keys.IMAGES)
        onnx = folder / "out.onnx"
        if not _is_host(record):
            get(record.artifacts["out.onnx"].key, onnx)
        intake = self._conversion.uploads.intake
        request: PackRequest = {
            **intake.samples_in(folder),
            "folder": str(contents),
            "nef": str(contents / "out.nef"),
            "onnx": str(onnx),
            "options": record.options.model_dump(mode="json"),
        }
        with aborts_refused("The pack could not be made", hint="Download the NEF by itself."):
            return intake.run(BUILD, request, folder)

    def _manifest(self, record: JobRecord, url: str) -> JsonObject:
        report = {
            "url": f"{url.rstrip('/')}/device-results/{record.job_id}",
            "token": self.device_results.make_token(record.job_id),
        }
        return {
            "format": "modelmill-pack",
            "version": 1,
            "job_id": record.job_id,
            "name": record.name,
            "toolchain": record.options.toolchain.value,
            "platform": record.options.model_dump(mode="json").get("platform"),
            "nef_sha256": record.artifacts["out.nef"].sha256,
            "report": report if url else None,
        }


def _is_host(record: JobRecord) -> bool:
    return record.options.toolchain.value == "host"


def _zip(contents: Path, target: Path) -> Path:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(contents.rglob("*")):
            if path.is_file():
                archive.write(path, path.relative_to(contents))
    return target
