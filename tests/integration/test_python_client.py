"""The Python client against the running service, and the examples of its pages."""

from __future__ import annotations

import asyncio
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import httpx
import pytest
from modelmill_client import (
    ArchiveRow,
    AsyncModelmill,
    BadInput,
    Conflict,
    JobFailed,
    JobNotFound,
    Modelmill,
    NotFound,
    waits,
)
from modelmill_client.inputs import packed

from app.conversion.archive_schemas import ArchivedJobRow, ArchiveQuery
from app.kit.queue.messages import Queue
from tests.harness.api import not_a_number_model, png, small_model
from tests.harness.deployment import DRAMATIQ, Deployment
from tests.harness.paths import REPOSITORY

PAGES = (REPOSITORY / "docs/client.md", REPOSITORY / "ops/packages/modelmill-client/README.md")
EXAMPLES = [code for page in PAGES for code in re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.S)]


@pytest.fixture
def client(service: Deployment) -> Iterator[Modelmill]:
    with Modelmill(service.url) as made:
        yield made


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    """A folder with yolo.onnx and a folder of pictures."""
    (tmp_path / "yolo.onnx").write_bytes(small_model())
    (tmp_path / "calibration").mkdir()
    for number in range(3):
        (tmp_path / "calibration" / f"{number}.png").write_bytes(png(number))
    return tmp_path


def test_a_model_is_converted_watched_and_fetched(client: Modelmill, inputs: Path) -> None:
    job = client.convert(inputs / "yolo.onnx", inputs / "calibration", tags=["client"])
    assert job.wait(timeout_s=120).status == "COMPLETED"
    assert job.name == "yolo"
    assert job.quality and job.quality.samples > 0
    files = job.download(inputs / "out")
    assert {"out.nef", "bie.json", "nef.log"} <= set(files)
    assert "model.onnx" not in files
    assert files["out.nef"].stat().st_size > 0
    assert job.report("bie")["quality"]["samples"] == job.quality.samples
    tried = job.actions()["candidates"]
    assert job.front() == [one for one in tried if one["is_on_front"]] != []
    assert job.front(by_task=True) == [one for one in tried if one["is_on_task_front"]]
    job.edit(notes="good enough", keep=True)
    assert (job.record["notes"], job.record["keep"]) == ("good enough", True)
    assert job.id in {listed.id for listed in client.jobs(q="client", limit=5)}
    done = client.change_jobs("tag", [job.id], add_tags=["night"])
    assert done == {"done": [job.id], "problems": []}
    assert job.share(label="the board").startswith("http")
    job.edit(keep=False)
    job.delete()
    with pytest.raises(JobNotFound):
        job.refresh()


def test_a_completed_job_is_searched_opened_kept_and_deleted_in_the_archive(client: Modelmill, inputs: Path) -> None:
    job = client.convert(inputs / "yolo.onnx", inputs / "calibration", name="archived", tags=["of-a-client"])
    job.wait(timeout_s=120)
    (row,) = client.archive(tag="of-a-client", toolchain="host", kept=False, snr_max_db=500)
    assert (row.job_id, row.name, row.tags, row.is_kept) == (job.id, "archived", ("of-a-client",), False)
    assert list(client.archive(tag="of-a-client", kept=True)) == []
    assert list(client.archive(tag="of-a-client", snr_min_db=500)) == []
    archived = client.archived(row.job_id)
    assert (archived.name, archived.quality) == ("archived", job.quality)
    assert archived.keep().is_kept and not archived.keep(False).is_kept
    files = archived.download(inputs / "out")
    assert files.keys() == job.download(inputs / "again").keys()
    assert archived.report("bie") == job.report("bie")
    for each in (archived, job):
        with pytest.raises(NotFound) as refused:
            each.download(inputs / "none", names=["out.nef", "out.nfe"])
        assert "out.nfe" in refused.value.message and "out.nef" in refused.value.hint
    assert not (inputs / "none").exists()
    again = archived.convert_again().wait(timeout_s=120)
    assert again.id != job.id
    archived.delete()
    with pytest.raises(NotFound):
        client.archived(job.id)
    again.delete()


def test_the_archive_is_searched_by_what_the_service_takes_and_its_rows_have_all_fields() -> None:
    taken = set(inspect.signature(Modelmill.archive).parameters) - {"self"}
    assert taken == set(ArchiveQuery.model_fields) - {"owner", "cursor"}
    assert [field.name for field in fields(ArchiveRow)] == [field.name for field in fields(ArchivedJobRow)]


def test_what_is_wrong_is_an_exception_with_code_and_hint(client: Modelmill, inputs: Path) -> None:
    with pytest.raises(BadInput) as refused:
        client.convert(inputs / "yolo.onnx", inputs / "calibration", options={"toolchain": "kneron", "platform": "720"})
    assert refused.value.hint
    (inputs / "nan.onnx").write_bytes(not_a_number_model())
    job = client.convert(inputs / "nan.onnx", inputs / "calibration")
    try:
        job.wait(timeout_s=120)
    except JobFailed as failure:
        assert failure.code
        assert failure.hint
    with pytest.raises(Conflict):
        job.cancel()


def test_the_one_to_be_awaited_converts_several_at_once(service: Deployment, inputs: Path) -> None:
    async def convert() -> list[str]:
        async with AsyncModelmill(service.url) as client:
            started = [client.convert(inputs / "yolo.onnx", inputs / "calibration", name=name) for name in ("a", "b")]
            jobs = await asyncio.gather(*started)
            await asyncio.gather(*(job.wait(timeout_s=120) for job in jobs))
            listed = [job.id async for job in client.jobs(limit=20)]
            assert {job.id for job in jobs} <= set(listed)
            files = await jobs[0].download(inputs / "async")
            assert files["out.nef"].is_file()
            rows = [row async for row in client.archive(q=jobs[1].id)]
            assert [(await client.archived(row.job_id)).id for row in rows] == [jobs[1].id]
            return [job.status for job in jobs]

    assert asyncio.run(convert()) == ["COMPLETED", "COMPLETED"]


class BreakingLine(httpx.HTTPTransport):
    """Ends the first PATCHes in the middle of what they send."""

    def __init__(self, breaks: int) -> None:
        super().__init__()
        self.breaks = breaks
        self.methods: list[str] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.methods.append(request.method)
        if request.method == "PATCH" and self.breaks:
            self.breaks -= 1
            sent = iter(request.stream)  # type: ignore[arg-type]

            def broken() -> Iterator[bytes]:
                yield next(sent)
                raise httpx.WriteError("the line broke")

            request = httpx.Request(request.method, request.url, headers=request.headers, content=broken())
        return super().handle_request(request)


def test_a_large_upload_goes_on_where_it_broke_off(
    service: Deployment, inputs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("modelmill_client._sync.client.RESUMABLE_BYTES", 1)
    monkeypatch.setattr("modelmill_client._sync.resumable.CHUNK_BYTES", 500)
    monkeypatch.setattr(waits, "FIRST_PAUSE_S", 0.01)
    line, counted = BreakingLine(breaks=2), list[int]()
    with Modelmill(service.url, transport=line) as client, packed([inputs / "calibration"]) as images:
        keys = client.upload(inputs / "yolo.onnx", images, counted.append)
        assert client.submit(keys["model_key"], keys["quant_key"]).wait(timeout_s=120).status == "COMPLETED"
        assert sum(counted) == (inputs / "yolo.onnx").stat().st_size + images.stat().st_size
    assert line.methods.count("HEAD") == 2
    assert line.methods.count("PATCH") == 4


@pytest.fixture(scope="module")
def sweeps(service: Deployment) -> Iterator[None]:
    """The process that submits the jobs of sweeps."""
    process = service.start([DRAMATIQ, "actors", "--queues", Queue.SWEEPS.value, "--processes", "1", "--threads", "1"])
    yield
    process.terminate()
    process.wait()
    service.processes.remove(process)  # other tests ask whether those of the service still run


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
@pytest.mark.usefixtures("sweeps")
def test_the_examples_of_its_pages_run(service: Deployment, inputs: Path, number: int) -> None:
    (inputs / "example.py").write_text(EXAMPLES[number].replace("http://127.0.0.1:8080", service.url))
    run = subprocess.run(
        [sys.executable, "example.py"],
        cwd=inputs,
        env={"MODELMILL_URL": service.url, "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
