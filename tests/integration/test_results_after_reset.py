"""Redis is killed: its jobs are gone, what they had made is found, downloaded and nobody else's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import httpx
import pytest

from tests.harness.api import pngs, small_model
from tests.harness.deployment import Deployment
from tests.harness.until import until
from tests.harness.users import Person, person

ENGLISH, CHINESE = "The system was restarted, please submit again", "系統已重啟,請重新送出"
UNKNOWN = "00000000-0000-4000-8000-000000000000"


@dataclass(frozen=True)
class Reset:
    """job_id: of a job of alice's that had been converted. nef: what it made. sizes: of its artifacts. live: what her
    open list asks for."""

    alice: Person
    bob: Person
    job_id: str
    nef: bytes
    sizes: dict[str, int]
    live: str


@pytest.fixture(scope="module")
def reset(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reset]:
    with Deployment(tmp_path_factory.mktemp("reset"), accounts="true") as deployment:
        deployment.whole()
        alice, bob = person(deployment, "alice"), person(deployment, "bob")
        with alice.api() as api:
            job = api.convert(small_model(), pngs(3), name="survivor", tags=["kept"])
            nef = api.http.get(f"/jobs/{job['job_id']}/artifacts/out.nef").content
            sizes = {name: artifact["size_bytes"] for name, artifact in job["artifacts"].items()}
        page(alice, f"/ui/jobs/new?from={job['job_id']}")  # leaves thumbnails beside the inputs
        live = re.search(r'hx-get="(/ui/jobs/live[^"]+)"', page(alice, "/ui/jobs"))
        assert live is not None
        deployment.valkey.kill()
        deployment.valkey.start()
        with bob.api() as api:
            until(lambda: api.http.get("/jobs").status_code == 200)
        yield Reset(alice, bob, job["job_id"], nef, sizes, live[1].replace("&amp;", "&"))


def page(who: Person, path: str) -> str:
    with who.browser() as browser:
        return browser.get(path).text


def get(who: Person, path: str, **options: dict[str, str]) -> httpx.Response:
    with who.api() as api:
        return api.http.get(path, **options)  # type: ignore[arg-type]


def test_the_job_is_gone_and_its_files_are_listed_and_downloaded(reset: Reset) -> None:
    assert get(reset.alice, f"/jobs/{reset.job_id}").json()["error"]["code"] == "JOB_NOT_FOUND"
    (result,) = get(reset.alice, "/results").json()["results"]
    assert (result["job_id"], result["name"], result["tags"]) == (reset.job_id, "survivor", ["kept"])
    assert result["is_finished"] is True
    names = {file["name"]: file["size_bytes"] for file in result["files"]}
    assert names == reset.sizes, "its artifacts, and nothing else that lies beside them"
    assert get(reset.alice, f"/results/{reset.job_id}").json() == result
    url = f"/results/{reset.job_id}/out.nef"
    assert get(reset.alice, url).content == reset.nef
    part = get(reset.alice, url, headers={"Range": "bytes=2-5"})
    assert (part.status_code, part.content) == (206, reset.nef[2:6])
    missing = get(reset.alice, f"/results/{reset.job_id}/request.json")
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "RESULT_NOT_FOUND")


def test_what_is_stored_is_nobody_elses(reset: Reset) -> None:
    assert get(reset.bob, "/results").json() == {"results": [], "next_cursor": None}
    for rest in ("", "/out.nef", "/request.json"):
        theirs, none = (get(reset.bob, f"/results/{job_id}{rest}") for job_id in (reset.job_id, UNKNOWN))
        assert theirs.status_code == none.status_code == 404
        assert theirs.text.replace(reset.job_id, UNKNOWN) == none.text
    assert CHINESE not in page(reset.bob, "/ui/jobs")
    assert reset.job_id not in page(reset.bob, "/ui/results")
    assert "out.nef" not in page(reset.bob, f"/ui/jobs/{reset.job_id}")
    assert httpx.get(f"{reset.bob.url}/results/{reset.job_id}/out.nef", trust_env=False).status_code == 401


def test_the_pages_tell_of_the_reset_and_lead_to_the_files(reset: Reset) -> None:
    jobs = page(reset.alice, "/ui/jobs")
    assert ENGLISH in jobs and CHINESE in jobs and 'href="/ui/results"' in jobs
    assert "No conversions since the restart" in jobs
    link = f'href="/results/{reset.job_id}/out.nef"'
    assert link in page(reset.alice, "/ui/results")
    assert link in page(reset.alice, f"/ui/jobs/{reset.job_id}")


def test_a_list_that_was_open_is_loaded_anew(reset: Reset) -> None:
    with reset.alice.browser() as browser:
        answer = browser.get(reset.live, headers={"HX-Request": "true"})
        assert answer.headers["hx-redirect"] == "/ui/jobs?note=restarted"
        shown = browser.get(answer.headers["hx-redirect"]).text
    assert CHINESE in shown
    assert CHINESE in page(reset.bob, "/ui/jobs?note=restarted"), "also where nothing is stored"
