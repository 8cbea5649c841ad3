"""What somebody sees who comes for the first time, and what they can do with one click."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.harness.api import Api, has_ended
from tests.harness.deployment import Deployment

OURS = {"Sec-Fetch-Site": "same-origin"}


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with Deployment(tmp_path_factory.mktemp("fresh")) as deployment:
        deployment.whole()
        yield deployment


@pytest.fixture
def web(fresh: Deployment) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=fresh.url, timeout=60, trust_env=False, headers={"Accept": "text/html"}) as client:
        yield client


def test_each_sample_is_converted_by_its_button_and_passes(web: httpx.Client, fresh: Deployment) -> None:
    page = web.get("/ui/jobs").text
    buttons = re.findall(r'action="(/ui/jobs/new/sample/(\w+)\?once=\w+)"', page)
    assert [name for _, name in buttons] == ["digits", "shapes", "dots"]
    with Api(fresh.url) as api:
        for url, name in buttons:
            sent = web.post(url, headers=OURS)
            assert sent.status_code == 303
            job = api.wait(sent.headers["location"].removeprefix("/ui/jobs/"), has_ended)
            assert (job["name"], job["status"], job["verdict"]) == (name, "COMPLETED", "PASSED")
            assert job["stages"]["bie"]["summary"]["latency_ms"] > 0
    assert "/ui/jobs/new/sample/" not in web.get("/ui/jobs").text


def test_a_sample_that_is_not_there_is_said_so(web: httpx.Client) -> None:
    answer = web.post("/ui/jobs/new/sample/nothing", headers=OURS)
    assert answer.status_code == 404 and "The sample &#39;nothing&#39; is not installed here." in answer.text


def test_the_drawn_samples_are_what_their_script_makes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import runpy

    from app.conversion.pages.samples import DRAWN

    made = runpy.run_path(str(DRAWN / "make.py"))
    random = made["np"].random.default_rng(7)
    assert made["surround_filter"]().shape == (1, 3, 9, 9)
    pictures = [made["shape"](random, kind) for kind in made["KINDS"]]
    assert len({picture.tobytes() for picture in pictures}) == 3
    monkeypatch.setitem(made["pack"].__globals__, "FOLDER", tmp_path)
    made["pack"]("a.zip", pictures)
    made["pack"]("b.zip", pictures)
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()


def test_the_api_is_described_call_by_call(web: httpx.Client) -> None:
    page = web.get("/ui/api").text
    paths = web.get("/openapi.json").json()["paths"]
    for path, operations in paths.items():
        for operation in operations.values():
            assert f'id="call-{operation["operationId"]}"' in page, path
    assert "curl -X POST" in page and f"{web.base_url}".rstrip("/") in page
