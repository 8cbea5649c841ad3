"""What all pages share: the way in, security headers, whose requests change anything, languages, errors."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

import httpx
import pytest

from tests.harness.deployment import Deployment

OURS = {"Sec-Fetch-Site": "same-origin"}
HTMX = {"HX-Request": "true"}


@pytest.fixture
def web(service: Deployment) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=service.url, timeout=60, trust_env=False, headers={"Accept": "text/html"}) as client:
        yield client


def test_the_way_in_leads_to_the_jobs(web: httpx.Client) -> None:
    for path in ("/", "/ui"):
        assert web.get(path).headers["location"] == "/ui/jobs"


def test_every_answer_forbids_inline_script_and_other_hosts(web: httpx.Client) -> None:
    for path in ("/ui/jobs", "/ui/jobs/never", "/ui/nothing", "/healthz", "/static/modelmill.css"):
        headers = web.get(path).headers
        assert "default-src 'none'; script-src 'self'; style-src 'self'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"


def test_files_are_cached_by_their_hash(web: httpx.Client) -> None:
    page = web.get("/ui/jobs").text
    for url in re.findall(r'(?:src|href)="(/static/[^"#]+)', page):
        answer = web.get(url)
        assert answer.status_code == 200 and "immutable" in answer.headers["cache-control"], url
    sent = web.get("/static/modelmill.css")
    assert sent.headers["cache-control"] == "no-cache" and sent.headers["content-encoding"] == "gzip"
    assert web.get("/static/../pyproject.toml").status_code == 404


def test_a_page_is_compressed_unless_it_answers_a_form_which_may_show_a_secret(web: httpx.Client) -> None:
    page = web.get("/ui/jobs/new")
    assert page.headers["content-encoding"] == "gzip" and "Accept-Encoding" in page.headers["vary"]
    assert int(page.headers["content-length"]) * 3 < len(page.content)
    plain = web.get("/ui/jobs/new", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers and len(plain.content) == int(plain.headers["content-length"])
    answer = web.post("/ui/jobs/new", data={}, headers=OURS)
    assert answer.status_code == 422 and "content-encoding" not in answer.headers


@pytest.mark.parametrize(
    ("headers", "is_allowed"),
    [
        ({"Sec-Fetch-Site": "same-origin"}, True),
        ({"Sec-Fetch-Site": "none"}, True),
        ({"Sec-Fetch-Site": "cross-site"}, False),
        ({"Sec-Fetch-Site": "same-site"}, False),
        ({"Sec-Fetch-Site": "cross-site", "Origin": "own"}, False),
        ({"Origin": "own"}, True),
        ({"Origin": "https://evil.example"}, False),
        ({"Origin": "null"}, False),
        ({}, False),
    ],
)
def test_changes_are_taken_from_our_own_pages_only(
    web: httpx.Client, service: Deployment, headers: dict[str, str], is_allowed: bool
) -> None:
    sent = {name: service.url if value == "own" else value for name, value in headers.items()}
    answer = web.post("/ui/lang", data={"lang": "en", "next": "/ui/system"}, headers=sent)
    assert answer.status_code == (303 if is_allowed else 403)
    assert ("set-cookie" in answer.headers) is is_allowed


def test_the_language_follows_the_browser_until_it_is_chosen(web: httpx.Client) -> None:
    assert "新轉換" in web.get("/ui/jobs", headers={"Accept-Language": "zh-TW"}).text
    english = web.get("/ui/jobs", headers={"Accept-Language": "de"})
    assert "New conversion" in english.text and english.headers["content-language"] == "en"
    chosen = web.post("/ui/lang", data={"lang": "zh-Hant", "next": "/ui/jobs?q=x"}, headers=OURS)
    assert (chosen.status_code, chosen.headers["location"]) == (303, "/ui/jobs?q=x")
    page = web.get("/ui/jobs", headers={"Accept-Language": "en"}).text
    assert '<html lang="zh-Hant">' in page and "新轉換" in page
    assert web.post("/ui/lang", data={"lang": "fr"}, headers=OURS).status_code == 422


def test_errors_are_pages_for_readers_fragments_for_htmx_and_json_for_programs(web: httpx.Client) -> None:
    page = web.get("/ui/nothing")
    assert page.status_code == 404 and "This page does not exist" in page.text
    fragment = web.get("/ui/nothing", headers=HTMX)
    assert fragment.text.startswith('<div class="error"')
    assert web.get("/nothing").text.startswith("<!doctype html>")
    assert web.get("/nothing", headers={"Accept": "*/*"}).json()["error"]["code"] == "NOT_FOUND"
    assert web.get("/nothing", headers={"Accept": "application/json, text/html"}).json()["error"]["code"] == "NOT_FOUND"


def test_what_a_page_shows_is_had_by_the_program_that_it_names(service: Deployment) -> None:
    pages = ("jobs", "archive", "system", "sweeps", "models", "nodes", "services", "video")
    with httpx.Client(base_url=service.url, timeout=60, trust_env=False) as client:
        for page in pages:
            text = html.unescape(client.get(f"/ui/{page}", headers={"Accept": "text/html"}).text)
            named = re.search(r"curl (http\S+)</pre>", text)
            assert named is not None and client.get(named[1]).status_code == 200, page
