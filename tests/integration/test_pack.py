"""A pack as its user runs it: in a process of its own, without the product on its path."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import zipfile
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.accounts.model import Role, Scope
from app.bootstrap.container import Container
from app.conversion import object_keys
from app.conversion.errors import JobNotFound
from app.conversion.options import Options
from app.exchange.errors import NothingToExport
from app.exchange.pack import contents, device_results
from app.exchange.pack.device_results import DeviceResult
from app.exchange.pack.requests import PackRequest
from app.kit.objects.signed_urls import BadSignature
from app.settings import Settings
from tests.harness.api import Api, pngs, small_model, zipped
from tests.harness.deployment import Deployment
from tests.harness.exchange import reported_job
from tests.harness.paths import REPOSITORY
from tests.harness.users import within

URL = "http://modelmill.example"


def unpacked(archive: Path | bytes, folder: Path) -> Path:
    with zipfile.ZipFile(io.BytesIO(archive) if isinstance(archive, bytes) else archive) as pack:
        pack.extractall(folder)
    return folder


def smoke(folder: Path, *flags: str, path: str = "") -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": path, "no_proxy": "*"}
    return subprocess.run(
        [sys.executable, "smoke.py", *flags], cwd=folder, env=env, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def job(service: Deployment) -> Any:
    with Api(service.url) as api:
        yield api.convert(small_model(), pngs(5), name="packed")


def test_a_pack_runs_where_the_product_is_not_and_reports_to_the_page_of_its_job(
    service: Deployment, job: Any, tmp_path: Path
) -> None:
    with Api(service.url) as api:
        answer = api.http.get(f"/jobs/{job['job_id']}/pack")
        assert answer.status_code == 200 and answer.headers["content-type"] == "application/zip"
        folder = unpacked(answer.content, tmp_path / "pack")
        names = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
        assert {"out.nef", "preprocess.json", "preprocess.c", "preprocess.h", "smoke.py", "README.txt"} <= names
        assert {f"tests/{number}/picture.npy" for number in range(3)} <= names
        done = smoke(folder, "--report")
        assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith("PASS 3 tests")
        [result] = api.http.get(f"/jobs/{job['job_id']}/device-results").json()["results"]
        assert result["is_pass"] is True and result["latency_ms"] > 0

        expected = dict(np.load(folder / "tests/1/expected.npz"))
        np.savez(folder / "tests/1/expected.npz", **{name: values + 100 for name, values in expected.items()})
        done = smoke(folder, "--report")
        assert done.returncode == 1 and done.stdout.startswith("FAIL tests/1 output ") and "is allowed" in done.stdout
        newest = api.http.get(f"/jobs/{job['job_id']}/device-results").json()["results"][0]
        assert newest["is_pass"] is False and newest["message"].startswith("tests/1 output")


def test_a_preprocessing_that_differs_is_named_before_any_output(job: Any, service: Deployment, tmp_path: Path) -> None:
    with Api(service.url) as api:
        folder = unpacked(api.http.get(f"/jobs/{job['job_id']}/pack").content, tmp_path / "pack")
    data = json.loads((folder / "preprocess.json").read_text())
    (folder / "preprocess.json").write_text(json.dumps({**data, "scale": 1.0}))
    manifest = json.loads((folder / "pack.json").read_text())
    (folder / "pack.json").write_text(json.dumps({**manifest, "report": None}))
    output = smoke(folder, "--report").stdout
    assert "preprocess.py gives another input" in output and "not reported: this pack" in output


def test_a_token_reports_of_its_own_job_alone(container: Container, settings: Settings) -> None:
    one, other = (reported_job(container, "alice", name) for name in ("one", "other"))
    manifest = container.packs._manifest(one, URL)
    assert manifest["report"]["url"] == f"{URL}/device-results/{one.job_id}"
    body = {"is_pass": True, "latency_ms": 1.5, "host": "board"}
    header = {"Authorization": f"Bearer {manifest['report']['token']}"}
    with within(settings) as web:
        key = {"Idempotency-Key": "sent again"}
        for _ in range(2):
            assert web.post(f"/device-results/{one.job_id}", json=body, headers={**header, **key}).status_code == 201
        assert web.post(f"/device-results/{one.job_id}", json=body, headers=key).status_code == 403
        for headers in (header, {}, {"Authorization": "Bearer 1.2"}):
            refused = web.post(f"/device-results/{other.job_id}", json=body, headers=headers)
            assert (refused.status_code, refused.json()["error"]["code"]) == (403, "BAD_SIGNATURE")
    assert [result.host for result in container.packs.device_results.of("alice", one.job_id)] == ["board"]
    assert container.packs.device_results.of("alice", other.job_id) == []


def test_what_devices_reported_stays_in_the_archive_and_goes_with_the_job(
    container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_results, "RESULTS_MAX", 2)
    record, results = reported_job(container, "alice"), container.packs.device_results
    container.archive.descriptions.write(record)
    token = results.make_token(record.job_id)
    for minute, host in enumerate(("first", "second", "third")):
        results.add(record.job_id, token, DeviceResult(True, 1.5, host, "", f"2026-11-20T00:0{minute}:00Z"))
    container.redis.flushdb()
    assert [result.host for result in results.of("alice", record.job_id)] == ["third", "second"]
    container.archive.delete(record.job_id, "alice")
    with pytest.raises(JobNotFound):
        results.add(record.job_id, token, DeviceResult(True, 1.5, "late", "", "2026-11-20T00:03:00Z"))
    assert list(container.objects.list(object_keys.job(record.job_id))) == []


def test_who_may_only_read_gets_a_pack_that_cannot_report(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports: list[Any] = []
    with within(settings.model_copy(update={"accounts": True})) as web:
        made: Container = web.app.state.container
        made.accounts.users.create("ada", Role.USER, by="test")
        record = reported_job(made, "ada")

        def kept(_: str, __: str, *, url: str) -> Path:
            reports.append(made.packs._manifest(record, url)["report"])
            pack = tmp_path / str(len(reports)) / "pack.zip"
            pack.parent.mkdir()
            pack.touch()
            return pack

        monkeypatch.setattr(made.packs, "kept", kept)
        for scopes in ([Scope.READ], [Scope.READ, Scope.WRITE]):
            token = made.accounts.tokens.issue("ada", by="test", scopes=scopes)[1]
            headers = {"Authorization": f"Bearer {token}"}
            assert web.get(f"/jobs/{record.job_id}/pack", headers=headers).status_code == 200
    assert [report is None for report in reports] == [True, False]


def test_without_a_good_end_there_is_nothing_to_pack(container: Container) -> None:
    record = reported_job(container, "alice", is_good=False)
    with pytest.raises(NothingToExport), container.packs.built("alice", record.job_id, url=URL):
        pass


def test_a_chips_pack_runs_by_the_vendors_package(tmp_path: Path) -> None:
    """Against the stand-in of kp: the expected outputs are those of the float model."""
    (tmp_path / "images").mkdir()
    images = tmp_path / "images.zip"
    images.write_bytes(zipped(pngs(3)))
    onnx, folder = tmp_path / "out.onnx", tmp_path / "work" / "pack"
    onnx.write_bytes(small_model())
    folder.mkdir(parents=True)
    options = Options.model_validate({"toolchain": "kneron", "platform": "720"})
    request: PackRequest = {
        "folder": str(folder),
        "nef": "",
        "onnx": str(onnx),
        "images": str(images),
        "unpack_to": str(tmp_path / "work" / "unpacked"),
        "options": options.model_dump(mode="json"),
        "limits": {"max_images": 10, "unpacked_bytes": 1 << 24},
    }
    made = contents.build(request, lambda *_: None)
    node = {"chip": "KL720", "layout": "4W4C8B", "radix": 6, "scale": 1.0, "v2": False}
    with zipfile.ZipFile(folder / "out.nef", "w") as nef:
        nef.write(onnx, "model.onnx")
        nef.writestr("node.json", json.dumps(node))
    digest = sha256((folder / "out.nef").read_bytes()).hexdigest()
    (folder / "pack.json").write_text(json.dumps({"toolchain": "kneron", "nef_sha256": digest, **made}))
    boot = "import kp; from kp.values import DeviceDescriptor; kp.core.connected.append(DeviceDescriptor(7, 0x720))"
    (folder / "sitecustomize.py").write_text(f"try:\n    {boot}\nexcept ImportError:\n    pass\n")
    done = smoke(folder, path=os.pathsep.join([str(folder), str(REPOSITORY / "tests" / "standins")]))
    assert done.stdout.startswith("PASS 3 tests"), done.stdout + done.stderr


def test_a_job_that_is_not_there_is_not_found_also_where_nothing_was_ever_packed(settings: Settings) -> None:
    with within(settings) as web:
        assert not settings.work.exists()
        assert web.get("/jobs/e3e70682-c209-4cac-a29f-6fbed82c07cd/pack").status_code == 404


def test_a_broken_signature_is_refused(container: Container) -> None:
    with pytest.raises(BadSignature):
        container.packs.device_results.add("job", "no token", DeviceResult(True, 1.0, "h", "", "now"))
