"""Signing in and managing users in a real browser, in light and dark, wide and narrow, with scripts and without."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect

from app.accounts.model import Role
from app.bootstrap.container import assemble
from tests.browser.conftest import PATIENCE_MS, OpenContext
from tests.harness.browser.complaints import Watch
from tests.harness.browser.page_rules import PHONE, assert_fits_a_phone, assert_sound
from tests.harness.browser.phone import Phone, opened_phone
from tests.harness.conversion_jobs import finished_job
from tests.harness.deployment import Deployment
from tests.harness.users import Person, person
from tests.harness.variants import exhaustive

PAGES = [
    "/ui/account",
    "/ui/admin/users",
    "/ui/admin/users/alice",
    "/ui/admin/users/alice/delete",
    "/ui/admin/users/alice/sftp-password",
]
SignedIn = Callable[..., Page]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with Deployment(tmp_path_factory.mktemp("guarded"), accounts="true") as deployment:
        deployment.web()
        yield deployment


@pytest.fixture
def address(guarded: Deployment) -> str:
    return guarded.url


@pytest.fixture(scope="module")
def boss(guarded: Deployment) -> Person:
    person(guarded, "alice", label="a laptop")
    return person(guarded, "root-admin", Role.ADMIN, label="mine")


def sign_in(page: Page, who: Person, path: str) -> None:
    """By the log-in, which leads on to this address."""
    page.goto(f"/ui/login?next={path}")
    page.locator("#token").fill(who.token)
    page.locator("#token").press("Enter")
    page.wait_for_url(f"**{path}")


@pytest.fixture
def signed_in(open_context: OpenContext, boss: Person) -> SignedIn:
    """A page at this address, of the administrator's window."""

    def opened(path: str, **options: Any) -> Page:
        context: BrowserContext = open_context(**options)
        page = context.new_page()
        sign_in(page, boss, path)
        return page

    return opened


@pytest.fixture(scope="module")
def phone(chromium: Browser, guarded: Deployment, boss: Person) -> Iterator[Phone]:
    """The administrator's."""
    with opened_phone(chromium, guarded.url, PATIENCE_MS) as phone:
        sign_in(phone.page, boss, "/ui/account")
        yield phone


@pytest.fixture(scope="module")
def chinese_phone(chromium: Browser, guarded: Deployment, boss: Person) -> Iterator[Phone]:
    with opened_phone(chromium, guarded.url, PATIENCE_MS, locale="zh-TW") as phone:
        sign_in(phone.page, boss, "/ui/account")
        yield phone


@pytest.mark.parametrize("path", PAGES)
def test_a_page_fits_a_phone_and_reads_well_in_both_themes(phone: Phone, path: str) -> None:
    assert_sound(phone.visit(path))
    assert phone.watch.complaints == []


def test_the_log_in_fits_a_phone_and_reads_well_in_both_themes(open_context: OpenContext) -> None:
    page = open_context(viewport=PHONE).new_page()
    page.goto("/ui/login")
    assert_sound(page)


@pytest.mark.exhaustive
def test_the_log_in_fits_a_phone_in_chinese(open_context: OpenContext) -> None:
    page = open_context(viewport=PHONE, locale="zh-TW").new_page()
    page.goto("/ui/login")
    assert_fits_a_phone(page)


@pytest.mark.exhaustive
@pytest.mark.parametrize("path", PAGES)
def test_a_page_fits_a_phone_in_chinese(chinese_phone: Phone, path: str) -> None:
    assert_fits_a_phone(chinese_phone.visit(path))
    assert chinese_phone.watch.complaints == []


@pytest.mark.parametrize("has_script", [True, *exhaustive(False)])
def test_a_user_is_created_given_a_token_and_signs_in_with_it(
    signed_in: SignedIn, open_context: OpenContext, has_script: bool
) -> None:
    name = f"newcomer-{has_script}".lower()
    office = signed_in("/ui/admin/users", java_script_enabled=has_script)
    office.get_by_label("Name", exact=True).fill(name)
    office.get_by_role("button", name="Create").click()
    office.get_by_role("link", name="Back to the user").click()
    office.get_by_label("Label").fill("first")
    office.get_by_role("button", name="Issue a token").click()
    token = office.locator("code.token").inner_text()
    expect(office.get_by_role("button", name="Copy")).to_have_count(1 if has_script else 0)
    page = open_context(java_script_enabled=has_script).new_page()
    page.goto("/ui/system")
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/ui/system")
    expect(page.get_by_role("link", name=name)).to_be_visible()
    assert token not in page.url
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/ui/login")


def test_a_link_to_a_job_is_opened_by_another_user_until_it_is_revoked(
    signed_in: SignedIn, open_context: OpenContext, boss: Person, guarded: Deployment, watches: list[Watch]
) -> None:
    container = assemble(guarded.settings())
    job = finished_job(container, boss.name, "faces for you", files={"out.nef": b"a network"})
    container.close()
    page = signed_in(f"/ui/jobs/{job.job_id}/shares")
    page.get_by_label("Recipient").fill("alice")
    page.get_by_role("button", name="Create a link").click()
    url = page.locator("#share-url").inner_text()
    other = open_context().new_page()
    sign_in(other, person(guarded, "alice"), "/ui/jobs")
    expect(other.get_by_text("faces for you")).to_have_count(0)
    other.goto(url)
    expect(other.get_by_role("heading", level=1)).to_have_text("faces for you")
    with other.expect_download() as begun:
        other.get_by_role("link", name="out.nef").first.click()
    assert begun.value.path().read_bytes() == b"a network"
    page.get_by_role("button", name="Revoke alice").click()
    expect(page.get_by_text("The link was revoked.")).to_be_visible()
    for watch in watches:
        watch.expect(r"status of 404")
    assert other.reload().status == 404


def test_what_the_page_has_asked_for_does_not_lead_whoever_signs_out_elsewhere(signed_in: SignedIn) -> None:
    page = signed_in("/ui/account")
    requests: list[Route] = []

    def hold(route: Route) -> None:
        requests.append(route)

    def answer_late(route: Route) -> None:
        for earlier in requests:
            earlier.fulfill(status=401, headers={"HX-Redirect": "/ui/login?next=/ui/account"})
        route.continue_()

    page.route("**/ui/logout", answer_late)
    page.route("**/ui/jobs/running", hold)
    with page.expect_request("**/ui/jobs/running"):
        page.reload()
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/ui/login")


def test_signing_out_in_one_window_leads_the_other_to_the_log_in(signed_in: SignedIn, watches: list[Watch]) -> None:
    page = signed_in("/ui/system")
    other = page.context.new_page()
    other.goto("/ui/account")
    for watch in watches:
        watch.expect(r"status (of )?401")  # of what it polls for, and of its stream
    other.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/ui/login?next=/ui/system")  # by the fragment that the page asks for every five seconds
