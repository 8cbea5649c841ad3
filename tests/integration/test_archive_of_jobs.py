"""The archive as its users have it: a real conversion, a killed Redis, the pages, the API and the command line."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from modelmill_client import Modelmill

from app.exchange.mcp_server import ConversionTools
from tests.harness.api import Api, has_ended, pngs, small_model
from tests.harness.command_line import typed
from tests.harness.deployment import Deployment
from tests.harness.until import until


@dataclass(frozen=True)
class Survivor:
    """A job that had completed before Redis was killed."""

    deployment: Deployment
    api: Api
    job_id: str
    nef: bytes


@pytest.fixture(scope="module")
def survivor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Survivor]:
    with Deployment(tmp_path_factory.mktemp("archive")) as deployment:
        deployment.whole()
        with Api(deployment.url) as api:
            job = api.convert(small_model(), pngs(3), name="survivor", tags=["kept"])
            nef = api.http.get(f"/jobs/{job['job_id']}/artifacts/out.nef").content
            deployment.valkey.kill()
            deployment.valkey.start()
            until(lambda: api.http.get("/jobs").status_code == 200)
            yield Survivor(deployment, api, job["job_id"], nef)


def test_the_job_is_gone_and_the_archive_has_it(survivor: Survivor) -> None:
    http, job_id = survivor.api.http, survivor.job_id
    gone = http.get(f"/jobs/{job_id}")
    assert gone.status_code == 404 and "GET /archive" in gone.json()["error"]["hint"]
    assert http.get("/jobs").json()["jobs"] == []
    (row,) = http.get("/archive", params={"q": "surv", "tag": "kept", "toolchain": "host"}).json()["jobs"]
    assert (row["job_id"], row["name"]) == (job_id, "survivor")
    archived = http.get(f"/archive/{job_id}").json()
    assert (archived["job"]["status"], archived["is_kept"]) == ("COMPLETED", False)
    assert row["model_sha256"] == archived["job"]["artifacts"]["model.onnx"]["sha256"]
    assert http.get(f"/archive/{job_id}/artifacts/out.nef").content == survivor.nef
    assert http.get("/archive", params={"verdict": "MAYBE"}).status_code == 422
    assert http.get("/archive", params={"owner": "somebody"}).json() == {"jobs": [], "next_cursor": None}


def test_the_pages_lead_to_it(survivor: Survivor) -> None:
    http, job_id = survivor.api.http, survivor.job_id
    gone = http.get(f"/ui/jobs/{job_id}", headers={"Accept-Language": "zh-Hant"})
    assert gone.status_code == 404
    assert "系統已重啟,請重新送出" in gone.text
    assert f'href="/ui/archive/{job_id}"' in gone.text
    assert 'href="/ui/archive"' in http.get("/ui/jobs").text
    assert job_id in http.get("/ui/archive", params={"q": "surv"}).text
    assert job_id not in http.get("/ui/archive", params={"q": "nothing"}).text
    assert job_id in http.get("/ui/archive", params={"target": "host", "snr_max": "500", "kept": "false"}).text
    for other in ({"target": "520"}, {"snr_max": "-500"}, {"kept": "true"}):
        assert job_id not in http.get("/ui/archive", params=other).text
    page = http.get(f"/ui/archive/{job_id}").text
    assert "Delete for good" not in page
    assert "Delete for good" in http.get(f"/ui/archive/{job_id}?delete=confirm").text
    assert survivor.nef in http.get(f"/ui/archive/{job_id}/all.zip").content
    compared = http.get("/ui/jobs/compare", params={"a": job_id, "b": job_id}).text
    assert "It may have been deleted" not in compared


def test_an_agent_reads_it_and_compares_it(survivor: Survivor) -> None:
    tools = ConversionTools(survivor.deployment.url, "")
    assert tools.status(survivor.job_id)["status"] == "COMPLETED"
    assert [job["name"] for job in tools.compare(survivor.job_id, survivor.job_id)["jobs"]] == ["survivor", "survivor"]


def test_it_is_converted_again_as_a_job_of_its_own(survivor: Survivor) -> None:
    http = survivor.api.http
    again = http.post(f"/archive/{survivor.job_id}/convert")
    assert again.status_code == 201, again.text
    job_id = again.json()["job_id"]
    assert job_id != survivor.job_id
    until(lambda: has_ended(survivor.api.job(job_id)))
    until(lambda: {row["job_id"] for row in http.get("/archive").json()["jobs"]} == {survivor.job_id, job_id})
    assert http.delete(f"/jobs/{job_id}").status_code == 204
    assert {row["job_id"] for row in http.get("/archive").json()["jobs"]} == {survivor.job_id}


def test_the_command_line_lists_downloads_keeps_rebuilds_and_deletes(
    survivor: Survivor, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for name, value in survivor.deployment.env.items():
        if name.startswith("MODELMILL_"):
            monkeypatch.setenv(name, value)
    short, url = survivor.job_id[:8], ("--url", survivor.deployment.url)

    def say(*words: str) -> str:
        assert typed(monkeypatch, *words) == 0
        return capsys.readouterr().out

    assert short in say("archive", "list", "-q", "surv", *url)
    matching = ("--toolchain", "host", "--max-snr", "500", "--not-kept")
    assert short in say("archive", "list", *matching, *url)
    for other in (("--chip", "520"), ("--toolchain", "kneron"), ("--max-snr", "-500"), ("--kept",)):
        assert short not in say("archive", "list", *other, *url)
    shown = say("archive", "show", short, *url)
    assert "out.nef" in shown and re.search(r"(PASSED|BELOW_RULE)  worst output -?\d+\.\d dB", shown)
    assert "out.nef" in say("archive", "download", short, "-o", str(tmp_path), *url)
    assert (tmp_path / "out.nef").read_bytes() == survivor.nef
    assert not (tmp_path / "model.onnx").exists(), "the inputs only where they are named"
    assert "model.onnx" in say("archive", "download", short, "model.onnx", "-o", str(tmp_path), *url)
    assert typed(monkeypatch, "archive", "download", short, "out.nfe", *url) == 4
    assert "It has: " in capsys.readouterr().err
    shared = say("jobs", "share", short, *url).strip()
    assert "survivor" in survivor.api.http.get(shared).text
    with Modelmill(survivor.deployment.url) as client:
        assert "survivor" in survivor.api.http.get(client.archived(survivor.job_id).share(days=1)).text
    say("pack", short, "-o", str(tmp_path / "pack.zip"), *url)
    assert zipfile.ZipFile(tmp_path / "pack.zip").read("out.nef") == survivor.nef
    again = json.loads(say("archive", "convert", short, "--json", *url))["job_id"]
    assert again != survivor.job_id and survivor.api.job(again)["name"] == "survivor"
    until(lambda: has_ended(survivor.api.job(again)))
    assert survivor.api.http.delete(f"/jobs/{again}").status_code == 204
    assert "is submitted." in say("archive", "convert", short, *url)
    (last,) = survivor.api.http.get("/jobs").json()["jobs"]
    until(lambda: has_ended(survivor.api.job(last["job_id"])))
    assert survivor.api.http.delete(f"/jobs/{last['job_id']}").status_code == 204
    assert "is changed." in say("jobs", "edit", short, "--name", "survivor, first", "--tag", "shelf", *url)
    with Modelmill(survivor.deployment.url) as client:
        archived = client.archived(survivor.job_id)
        assert (archived.name, archived.record["tags"]) == ("survivor, first", ["shelf"])
        assert archived.edit(name="survivor", notes="first").record["notes"] == "first"
    assert json.loads(say("jobs", "edit", short, "--tag", "", "--json", *url))["tags"] == []
    assert "is kept." in say("archive", "keep", short, *url)
    assert json.loads(say("archive", "keep", short, "--json", *url)) == {"job_id": survivor.job_id, "is_kept": True}
    data_dir = str(Path(survivor.deployment.env["MODELMILL_DATA_DIR"]))
    told = say("archive", "rebuild", "--data-dir", data_dir)
    assert f"Object store: {data_dir}/objects. Jobs in the archive: 1." in told, "another store has none, and no error"
    assert re.search(r'"is_kept": true', say("archive", "list", "--json", *url))
    assert typed(monkeypatch, "archive", "rm", short, *url) != 0, "it asks first, and nobody is there to answer"
    assert json.loads(say("archive", "rm", short, "--yes", "--json", *url)) == {"removed": survivor.job_id}
    assert survivor.api.http.get(f"/archive/{survivor.job_id}").status_code == 404
    assert survivor.api.http.get("/archive").json()["jobs"] == []
