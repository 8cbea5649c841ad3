"""The same work once, as its users have it: reuse, --no-cache, receipts and what deletion takes along."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.api import Api, has_ended, pngs, slow_model, small_model, zipped
from tests.harness.command_line import typed
from tests.harness.deployment import Deployment

PICTURES = pngs(4)
STEPS = ("onnx", "bie", "nef")


@pytest.fixture(scope="module")
def caching(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with Deployment(tmp_path_factory.mktemp("same-work"), cache_max_bytes=str(1 << 30)) as deployment:
        deployment.whole()
        yield deployment


@pytest.fixture(scope="module")
def api(caching: Deployment) -> Iterator[Api]:
    with Api(caching.url) as client:
        yield client


@pytest.fixture(scope="module")
def first(api: Api) -> dict[str, Any]:
    """A job that had nothing to reuse."""
    job = api.convert(small_model(), PICTURES, name="First")
    assert job["status"] == "COMPLETED"
    return job


def sources(job: dict[str, Any]) -> dict[str, str | None]:
    return {step: job["stages"][step]["reused_from"] for step in STEPS}


def content(api: Api, job: dict[str, Any], name: str) -> bytes:
    answer = api.http.get(f"/jobs/{job['job_id']}/artifacts/{name}")
    assert answer.status_code == 200, answer.text
    return answer.content


def test_the_same_job_again_is_copied_and_says_so(api: Api, first: dict[str, Any]) -> None:
    assert sources(first) == dict.fromkeys(STEPS)
    assert {stage["saved_s"] for stage in first["stages"].values()} == {None}
    again = api.convert(small_model(), [("otherwise.zip", zipped(PICTURES))], name="Again")
    assert sources(again) == dict.fromkeys(STEPS, first["job_id"])
    for step in STEPS:
        stage, name = again["stages"][step], f"out.{step}"
        assert stage["saved_s"] > 0 and stage["versions"] == first["stages"][step]["versions"]
        assert again["artifacts"][name]["sha256"] == first["artifacts"][name]["sha256"]
        assert again["artifacts"][name]["key"] != first["artifacts"][name]["key"]
        assert content(api, again, name) == content(api, first, name)
        log = api.http.get(f"/jobs/{again['job_id']}/logs/{step}").text
        assert re.match(rf"reused from job {first['job_id']}, saved [0-9.]+ s\n", log)
    assert again["verdict"] == first["verdict"]
    page = api.http.get(f"/ui/jobs/{again['job_id']}").text
    assert f'href="/ui/jobs/{first["job_id"]}"' in page and page.count("Reused") >= 3
    assert "沿用" in api.http.get(f"/ui/jobs/{again['job_id']}", headers={"Accept-Language": "zh-Hant"}).text


def test_other_options_of_a_later_stage_leave_the_earlier_ones_alone(api: Api, first: dict[str, Any]) -> None:
    options = {"quantization": {"method": "minmax", "per_channel": False}}
    job = api.convert(small_model(), PICTURES, options=options)
    assert sources(job) == {"onnx": first["job_id"], "bie": None, "nef": None}


def test_one_more_picture_makes_it_another_work(api: Api, first: dict[str, Any]) -> None:
    job = api.convert(small_model(), pngs(5))
    assert sources(job) == dict.fromkeys(STEPS)


def test_who_wants_it_done_says_so_by_api_form_and_command(
    caching: Deployment, api: Api, first: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = api.convert(small_model(), PICTURES, no_cache=True)
    assert job["no_cache"] and sources(job) == dict.fromkeys(STEPS)
    assert 'name="no_cache" value="1"' in api.http.get("/ui/jobs/new").text
    stored = api.upload(small_model(), PICTURES)
    keys = {"model_key": stored["model_key"], "quant_key": stored["quant_key"], "model_name": "m.onnx"}
    fields = {name: (None, text) for name, text in (keys | {"no_cache": "1"}).items()}
    sent = api.http.post("/ui/jobs/new", files=fields, headers={"Origin": caching.url})
    assert sent.status_code == 303, sent.text
    by_form = api.wait(sent.headers["location"].rpartition("/")[2], has_ended)
    assert by_form["no_cache"] and sources(by_form) == dict.fromkeys(STEPS)
    (tmp_path / "m.onnx").write_bytes(small_model())
    (tmp_path / "quant.zip").write_bytes(zipped(PICTURES))
    command = ("convert", tmp_path / "m.onnx", tmp_path / "quant.zip", "-o", tmp_path / "out", "--url", caching.url)
    assert typed(monkeypatch, *command, "--no-cache") == 0
    newest = api.http.get("/jobs", params={"limit": 1}).json()["jobs"][0]
    assert newest["no_cache"] and sources(newest) == dict.fromkeys(STEPS)


def test_the_receipt_of_a_job_stands_and_names_what_was_changed(
    caching: Deployment,
    api: Api,
    first: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    job = api.convert(small_model(), PICTURES)
    for name in ("out.nef", "receipt.json", "bie.json"):
        (tmp_path / name).write_bytes(content(api, job, name))
    key = api.http.get("/receipts/key")
    assert key.status_code == 200 and key.headers["content-type"] == "application/x-pem-file"
    (tmp_path / "key.pem").write_text(key.text)
    for known in (tmp_path / "key.pem", caching.url):
        assert typed(monkeypatch, "verify", tmp_path / "out.nef", tmp_path / "bie.json", "--key", known) == 0
    capsys.readouterr()
    (tmp_path / "out.nef").write_bytes(b"another model")
    assert typed(monkeypatch, "verify", tmp_path, "--key", tmp_path / "key.pem") == 1
    output = capsys.readouterr().out
    assert re.search(r"out\.nef: CHANGED", output) and "bie.json: as the receipt says" in output
    payload = base64.b64decode(json.loads(content(api, job, "receipt.json"))["payload"])
    stages = json.loads(payload)["predicate"]["buildDefinition"]["internalParameters"]["stages"]
    assert {stage["reused_from"] for stage in stages.values()} == {job["stages"]["onnx"]["reused_from"]}
    assert api.http.get(f"/archive/{job['job_id']}/artifacts/receipt.json").status_code == 200


def test_a_job_is_reproduced_also_after_it_was_forgotten(
    caching: Deployment, api: Api, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    job = api.convert(small_model(), pngs(3), name="Made once")
    url = ("--url", caching.url)
    assert typed(monkeypatch, "reproduce", job["job_id"][:8], *url) == 0
    printed = capsys.readouterr().out
    assert re.search(r"out\.onnx +equal to the byte", printed) and re.search(r"out\.nef +equal", printed)
    caching.redis.delete(f"job:{job['job_id']}")
    assert typed(monkeypatch, "reproduce", job["job_id"][:8], *url, "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    again = api.job(answer["again"])
    assert again["no_cache"] and sources(again) == dict.fromkeys(STEPS)
    assert {output["sameness"] for output in answer["outputs"]} <= {"BYTES", "NORMALIZED"}
    assert typed(monkeypatch, "reproduce", "0" * 8, *url) == 4


def test_it_is_counted_and_shown(api: Api, first: dict[str, Any]) -> None:
    api.convert(small_model(), PICTURES)
    cache = api.http.get("/system").json()["cache"]
    assert cache["hits"] >= 3 and cache["misses"] >= 3 and cache["saved_s"] > 0
    assert (cache["max_bytes"], cache["is_shared"]) == (1 << 30, False)
    assert "Cache of stages" in api.http.get("/ui/system").text
    assert 'modelmill_stage_cache_lookups_total{result="hit",stage="nef"}' in api.http.get("/metrics").text


def test_deletion_is_deletion(api: Api) -> None:
    pictures = pngs(6)
    job = api.convert(small_model(), pictures)
    assert api.http.delete(f"/jobs/{job['job_id']}").status_code == 204
    again = api.convert(small_model(), pictures)
    assert sources(again) == dict.fromkeys(STEPS)


def test_two_at_once_are_one_work(caching: Deployment, api: Api) -> None:
    """Two workers of stage BIE: without waiting for each other both would quantize."""
    caching.another_worker("bie")
    stored = api.upload(slow_model(64), pngs(10, side=64))
    plain = {"quantization": {"method": "minmax"}}
    body = {"model_key": stored["model_key"], "quant_key": stored["quant_key"], "options": plain}
    started = [api.http.post("/jobs", json=body).json()["job_id"] for _ in range(2)]
    jobs = [api.wait(job_id, has_ended) for job_id in started]
    assert [job["status"] for job in jobs] == ["COMPLETED"] * 2
    done = [job for job in jobs if job["stages"]["bie"]["reused_from"] is None]
    assert len(done) == 1
    assert {job["stages"]["bie"]["reused_from"] for job in jobs} == {None, done[0]["job_id"]}
