"""The main path and its ends, as a user walks it: from files on the desktop to a NEF, or to a reason."""

from __future__ import annotations

import io
import os
import re
import signal
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from app.conversion.pages.new import SAMPLE_IMAGES, SAMPLE_MODEL
from ops.stand import Stand
from tests.browser.dragging import drop
from tests.browser.watching import Watch
from tests.integration.api import Api, has_ended, pngs, small_model
from tests.integration.test_bad_input import not_a_number_model
from tests.integration.test_jobs_api import paused

JOB_PAGE = re.compile(r"/ui/jobs/([0-9a-f-]{36})$")
EVENTS = re.compile(r"/jobs/[0-9a-f-]{36}/events")


def drop_sample(page: Page, images: Path = SAMPLE_IMAGES) -> None:
    page.goto("/ui/jobs/new")
    model, pictures = page.locator('[data-upload="model"]'), page.locator('[data-upload="images"]')
    drop(model.locator("[data-drop]"), SAMPLE_MODEL)
    expect(model).to_have_class(re.compile("is-filled"))
    expect(model).to_contain_text("Opset")
    drop(pictures.locator("[data-drop]"), images)
    expect(pictures).to_have_class(re.compile("is-filled"))
    expect(pictures.locator("img").first).to_be_visible()


def convert(page: Page) -> str:
    """Press the button; the id of the job whose page opens."""
    page.get_by_role("button", name="Convert", exact=True).click()
    page.wait_for_url(JOB_PAGE)
    found = JOB_PAGE.search(page.url)
    assert found is not None
    return found[1]


def badge(page: Page, text: str) -> None:
    expect(page.locator(".title-line")).to_contain_text(text, timeout=100_000)


def test_the_sample_is_converted_by_drag_and_drop_to_a_downloaded_nef(page: Page, api: Api) -> None:
    drop_sample(page)
    page.get_by_label("Name").fill("digits")
    job_id = convert(page)
    badge(page, "Completed")
    with page.expect_download() as begun:
        page.get_by_role("link", name="out.nef", exact=True).first.click()
    assert begun.value.suggested_filename == "out.nef"
    data = begun.value.path().read_bytes()
    assert data == api.http.get(f"/jobs/{job_id}/artifacts/out.nef").content
    assert zipfile.is_zipfile(begun.value.path())
    expect(page.get_by_role("heading", level=1)).to_have_text("digits")


def test_a_dropped_folder_of_pictures_is_taken_whole(page: Page, api: Api, tmp_path: Path) -> None:
    folder = tmp_path / "pictures"
    with zipfile.ZipFile(SAMPLE_IMAGES) as packed:
        names = [name for name in packed.namelist() if name.endswith(".png")]
        packed.extractall(folder / "inner", names)
    (folder / "notes.txt").write_text("not a picture")
    drop_sample(page, folder)
    job = api.wait(convert(page), has_ended)
    assert job["status"] == "COMPLETED", job["error"]
    stored = api.http.get(f"/jobs/{job['job_id']}/artifacts/quant.zip").content
    with zipfile.ZipFile(io.BytesIO(stored)) as packed:
        assert len(packed.namelist()) == len(names) > 90


def test_a_failing_model_shows_its_reason_a_hint_and_the_last_lines_of_its_log(page: Page, api: Api) -> None:
    job_id = api.start(not_a_number_model(), pngs(3))
    page.goto(f"/ui/jobs/{job_id}")
    badge(page, "Failed")
    error = api.wait(job_id, has_ended)["error"]
    failure = page.locator(".failure")
    expect(failure.get_by_role("heading", level=2)).to_have_text(f"Stage {error['step'].upper()} failed")
    expect(failure).to_contain_text(error["reason"])
    expect(failure).to_contain_text(error["hint"])
    lines = failure.locator("pre").inner_text().splitlines()
    log = api.http.get(f"/jobs/{job_id}/logs/{error['step']}").text.splitlines()
    assert lines and lines == log[-len(lines) :]
    expect(failure.get_by_role("link", name="Convert again with changes")).to_be_visible()


@pytest.fixture
def waiting_job(service: Stand, api: Api) -> Iterator[str]:
    """A job that has its BIE and stays there until the test ends, or until the worker of stage NEF is woken."""
    with paused(service.processes[2]):
        job_id = api.start(small_model(), pngs(3))
        api.wait(job_id, lambda job: job["status"] == "NEF")
        yield job_id


def test_polling_finishes_the_page_when_the_event_stream_was_killed_in_mid_job(
    page: Page, watch: Watch, waiting_job: str, service: Stand
) -> None:
    with page.expect_response(EVENTS) as stream:
        page.goto(f"/ui/jobs/{waiting_job}")
    assert stream.value.ok
    badge(page, "Waiting for NEF")
    page.route(EVENTS, lambda route: route.abort())
    with page.expect_event("requestfailed", lambda request: EVENTS.search(request.url) is not None):
        page.context.set_offline(True)
    page.context.set_offline(False)
    os.killpg(service.processes[2].pid, signal.SIGCONT)
    badge(page, "Completed")
    expect(page.get_by_role("link", name="out.nef", exact=True).first).to_be_visible()
    watch.forgive("/events|/live|/logs/")


def test_polling_alone_takes_a_job_to_its_end_and_then_stops_by_itself(
    page: Page, watch: Watch, waiting_job: str, service: Stand
) -> None:
    page.route(EVENTS, lambda route: route.abort())
    page.goto(f"/ui/jobs/{waiting_job}")
    badge(page, "Waiting for NEF")
    os.killpg(service.processes[2].pid, signal.SIGCONT)
    badge(page, "Completed")
    poll = page.locator(f"#job-poll-{waiting_job}")
    expect(poll).to_have_count(1)
    expect(poll).not_to_have_attribute("hx-trigger", re.compile("."))
    expect(page.locator("#job-sse")).not_to_have_attribute("hx-trigger", re.compile("."))
    watch.forgive("/events")
