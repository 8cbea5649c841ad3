"""Debian's Chromium, driven by Playwright, in front of the whole service. Every page is watched to the end of its test.

The browser lives as long as this folder's tests: Playwright keeps an event loop running in the thread, which tests
elsewhere that run their own would stumble over.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.harness.api import Api, has_ended, not_a_number_model, pngs, small_model
from tests.harness.browser.chromium import ARGUMENTS, CHROMIUM, SHELL
from tests.harness.browser.complaints import Watch
from tests.harness.deployment import Deployment

PATIENCE_MS = 30_000
expect.set_options(timeout=PATIENCE_MS)

OpenContext = Callable[..., BrowserContext]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    if CHROMIUM is None:
        missing = f"There is no Chromium: apt-get install --no-install-recommends {SHELL}"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def own_deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """A service that the other tests do not use, for those that break one."""
    with Deployment(tmp_path_factory.mktemp("own")) as deployment:
        deployment.whole()
        yield deployment


@pytest.fixture
def address(service: Deployment) -> str:
    """Of the service that the pages are asked of; a module with a service of its own overrides it."""
    return service.url


@pytest.fixture
def watches() -> list[Watch]:
    return []


@pytest.fixture
def open_context(chromium: Browser, address: str, watches: list[Watch]) -> Iterator[OpenContext]:
    """Opens a watched window with the options of Playwright's new_context; at the end nothing must be complained of."""
    contexts = []

    def opened(**options: Any) -> BrowserContext:
        context = chromium.new_context(base_url=address, **{"locale": "en", **options})
        context.set_default_timeout(PATIENCE_MS)
        contexts.append(context)
        watches.append(Watch(context, urlsplit(address).netloc))
        return context

    yield opened
    for context in contexts:
        for opened_page in context.pages:
            opened_page.unroute_all(behavior="ignoreErrors")  # an answer that is being changed is of no use any more
        context.close()
    assert [complaint for watch in watches for complaint in watch.complaints] == []


@pytest.fixture
def page(open_context: OpenContext) -> Page:
    return open_context().new_page()


@pytest.fixture
def watch(page: Page, watches: list[Watch]) -> Watch:
    """Of `page`."""
    return watches[0]


@pytest.fixture
def api(address: str) -> Iterator[Api]:
    with Api(address) as client:
        yield client


@pytest.fixture(scope="package")
def finished(service: Deployment) -> str:
    """The id of a job that was converted."""
    with Api(service.url) as client:
        job = client.convert(small_model(), pngs(4), name="A finished one", tags=["camera", "night"])
    assert job["status"] == "COMPLETED", job["error"]
    return str(job["job_id"])


@pytest.fixture(scope="package")
def another(service: Deployment) -> str:
    """The id of a job like `finished` with another calibration, and with a name and a tag that cannot be wrapped."""
    options = {"quantization": {"method": "percentile"}}
    with Api(service.url) as client:
        job = client.convert(small_model(), pngs(4), name="Another" + "_one" * 48, tags=["n" * 50], options=options)
    assert job["status"] == "COMPLETED", job["error"]
    return str(job["job_id"])


@pytest.fixture(scope="package")
def failed(service: Deployment) -> str:
    """The id of a job whose model yields numbers that are none."""
    with Api(service.url) as client:
        job = client.wait(client.start(not_a_number_model(), pngs(3), name="A failed one"), has_ended)
    assert job["status"] == "FAILED"
    return str(job["job_id"])
