"""A job's page keeps itself current: by the event stream, and without it."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, Route, expect

from tests.harness.api import Api, has_ended, pngs, small_model
from tests.harness.browser.complaints import Watch
from tests.harness.browser.traffic import Traffic
from tests.harness.deployment import Deployment
from tests.harness.until import until

EVENTS = re.compile(r"/jobs/[0-9a-f-]{36}/events")
STREAM_LOST = r"net::ERR_|Failed to fetch|network error"
"""What the console says of a stream that is killed and of each try to have it again, while the page is open."""
HTMX_SCRIPT, SSE_SCRIPT = re.compile(r"/vendor/htmx-"), re.compile(r"/vendor/hx-sse-")
LATE_S = 0.5
NEF_WORKER, WEB = 2, -1
"""Places among the processes of the deployment; a web process that is started again is the last again."""


@pytest.fixture
def address(own_deployment: Deployment) -> str:
    return own_deployment.url


@pytest.fixture
def waiting_job(own_deployment: Deployment, api: Api) -> Iterator[str]:
    """A job that has its BIE and stays there until the worker of stage NEF is woken."""
    with own_deployment.paused(own_deployment.processes[NEF_WORKER]):
        job_id = api.start(small_model(), pngs(3))
        api.wait(job_id, lambda job: job["status"] == "NEF")
        yield job_id


def wake(deployment: Deployment) -> None:
    deployment.go_on(deployment.processes[NEF_WORKER])


def badge(page: Page, text: str) -> None:
    expect(page.locator(".title-line")).to_contain_text(text, timeout=60_000)


def test_polling_finishes_the_page_when_the_event_stream_was_killed_in_mid_job(
    page: Page, watch: Watch, waiting_job: str, own_deployment: Deployment
) -> None:
    traffic = Traffic(page)
    page.goto(f"/ui/jobs/{waiting_job}")
    assert traffic.response(EVENTS, timeout_s=60).ok
    badge(page, "Waiting for NEF")
    watch.expect(STREAM_LOST)
    page.route(EVENTS, lambda route: route.abort())
    with page.expect_event("requestfailed", lambda request: EVENTS.search(request.url) is not None):
        own_deployment.processes[WEB].kill()
        own_deployment.processes[WEB].wait()
    own_deployment.web()
    wake(own_deployment)
    badge(page, "Converted")
    expect(page).to_have_title(re.compile("^[✓⚠] .* dB"))
    expect(page.get_by_role("link", name="out.nef", exact=True).first).to_be_visible()


def test_the_event_stream_is_opened_however_late_the_scripts_come(page: Page, waiting_job: str) -> None:
    """Each of them in its turn is the last to arrive."""
    for script in (SSE_SCRIPT, HTMX_SCRIPT):
        page.unroute_all()
        page.route(script, lambda route: (time.sleep(LATE_S), route.continue_()))
        traffic = Traffic(page)
        page.goto(f"/ui/jobs/{waiting_job}")
        assert traffic.response(EVENTS, timeout_s=60).ok


@pytest.mark.exhaustive  # it does so above after a stream
def test_polling_alone_takes_a_job_to_its_end_and_then_stops_by_itself(
    page: Page, watch: Watch, waiting_job: str, own_deployment: Deployment
) -> None:
    watch.expect(STREAM_LOST)
    page.route(EVENTS, lambda route: route.abort())
    page.goto(f"/ui/jobs/{waiting_job}")
    badge(page, "Waiting for NEF")
    wake(own_deployment)
    badge(page, "Converted")
    expect(page.locator(f"#job-poll-{waiting_job}")).to_have_count(1)
    expect(page.locator("main [hx-trigger*=every]")).to_have_count(0)


def without_polling(page: Page, *paths: str) -> None:
    """Fragments of these pages ask again only when their stream says so."""

    def strip(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, body=re.sub(r", every \d+s", "", answer.text()))

    for path in paths:
        page.route(re.compile(rf"{path}(\?.*)?$"), strip)


def test_the_list_of_jobs_follows_its_stream_alone(page: Page, waiting_job: str, own_deployment: Deployment) -> None:
    without_polling(page, "/ui/jobs", "/ui/jobs/live")
    traffic = Traffic(page)
    page.goto("/ui/jobs")
    assert traffic.response(re.compile("/ui/jobs/events"), timeout_s=60).ok
    state = page.locator(f"#job-state-{waiting_job}")
    expect(state).to_contain_text("NEF")
    wake(own_deployment)
    expect(state).to_contain_text("Converted", timeout=60_000)
    expect(page.locator("#jobs-live")).to_have_count(1)


def test_what_changes_while_the_list_is_asked_for_is_asked_for_again(
    page: Page, api: Api, waiting_job: str, own_deployment: Deployment
) -> None:
    """The answer that was under way replaces the element that the event of the change would have asked with."""
    without_polling(page, "/ui/jobs")
    held = list[str]()

    def hold(route: Route) -> None:
        answer = route.fetch()
        if not held:
            held.append(answer.text())
            wake(own_deployment)
            assert api.wait(waiting_job, has_ended)["status"] == "COMPLETED"
            until(lambda: page.evaluate("seen") > 1, what="the page hears of it")
        route.fulfill(response=answer, body=re.sub(r", every \d+s", "", answer.text()))

    page.route(re.compile(r"/ui/jobs/live(\?.*)?$"), hold)
    page.add_init_script("window.seen = 0; document.addEventListener('changed', () => { seen += 1; }, true)")
    traffic = Traffic(page)
    page.goto("/ui/jobs")
    assert traffic.response(re.compile("/ui/jobs/events"), timeout_s=60).ok
    page.evaluate("document.getElementById('changes').dispatchEvent(new Event('changed'))")
    expect(page.locator(f"#job-state-{waiting_job}")).to_contain_text("Converted", timeout=60_000)
    assert "Converted" not in held[0]


def test_a_sweep_follows_its_stream_alone_and_asks_no_more_at_its_end(page: Page, api: Api) -> None:
    """Nobody works on its queue here, so it waits until it is cancelled."""
    inputs = api.upload(small_model(), pngs(3))
    models = [{"name": "net", "model_key": inputs["model_key"], "quant_key": inputs["quant_key"]}]
    body = {"models": models, "options": [{"name": "usual"}]}
    sweep_id = api.http.post("/sweeps", json=body).raise_for_status().json()["sweep_id"]
    without_polling(page, f"/ui/sweeps/{sweep_id}")
    traffic = Traffic(page)
    page.goto(f"/ui/sweeps/{sweep_id}")
    assert traffic.response(re.compile(f"/ui/sweeps/{sweep_id}/events"), timeout_s=60).ok
    table = page.locator("#sweep-live")
    expect(table).to_contain_text("Waiting")
    api.http.post(f"/sweeps/{sweep_id}/cancel").raise_for_status()
    expect(table).to_contain_text("Cancelled", timeout=60_000)
    expect(table).not_to_have_attribute("hx-trigger", re.compile("changed"))
    expect(page.get_by_role("button", name="Cancel unfinished jobs")).to_have_count(0)
    expect(page.get_by_role("button", name="Delete the sweep")).to_be_visible()
