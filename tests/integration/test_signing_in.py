"""Who is let in, who is not, and that nobody learns why."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from sqlalchemy import text

from app.accounts.model import Role, Scope
from app.kit.cli.command import Exit
from app.main import create_app
from app.settings import Settings
from tests.harness.api import events, pngs, small_model
from tests.harness.deployment import Deployment
from tests.harness.until import PATIENCE_S, until
from tests.harness.users import ADDRESSES, OURS, Person, Within, accounts_of, changed, person, within

COOKIE = "modelmill_session"


# --- tokens -------------------------------------------------------------------------------------------
def refused(shared: Deployment) -> dict[str, dict[str, str]]:
    """Every way to be refused, and the headers for it."""
    alice, disabled = person(shared, "alice"), person(shared, "disabled-one")
    revoked, expired = person(shared, "alice"), person(shared, "alice", ttl_s=1)
    with accounts_of(shared) as accounts:
        accounts.users.change("disabled-one", by="test", is_enabled=False)
        accounts.tokens.revoke("alice", revoked.token.split("_")[1], by="test")
    bearers = {
        "disabled": disabled.token,
        "revoked": revoked.token,
        "expired": expired.token,
        "wrong": changed(alice.token),
        "unknown": "mm_" + "0" * 12 + alice.token[15:],
        "malformed": "nonsense",
        "cut": alice.token[:-1],
        "longer": alice.token + "A",
        "spaced": f" {alice.token}",
        "other alphabet": alice.token[:-1] + "é",
    }
    headers = {name: {"Authorization": f"Bearer {text}".encode()} for name, text in bearers.items()}
    other = {"basic": b"Basic YTpi", "none": b"Bearer", "bare": alice.token.encode(), "empty": b""}
    headers |= {name: {"Authorization": text} for name, text in other.items()}
    return {"no header": {}, **headers}  # type: ignore[dict-item]


def test_every_refusal_is_the_same_byte_for_byte(shared: Deployment) -> None:
    bodies, heads = set(), set()
    for name, headers in refused(shared).items():
        transport = httpx.HTTPTransport(local_address=next(ADDRESSES))
        with httpx.Client(base_url=shared.url, transport=transport, timeout=60, trust_env=False) as client:
            if name == "expired":
                until(lambda c=client, h=headers: c.get("/jobs", headers=h).status_code == 401)
            answer = client.get("/jobs", headers=headers)
        assert answer.status_code == 401, name
        bodies.add(answer.content)
        heads.add(tuple((key, value) for key, value in answer.headers.items() if key not in ("date", "x-request-id")))
    assert len(bodies) == len(heads) == 1
    assert dict(heads.pop())["www-authenticate"] == "Bearer"


def test_two_authorization_headers_are_refused_though_both_are_right(shared: Deployment, alice: Person) -> None:
    address = ("127.0.0.1", shared.web_port)
    line = f"Authorization: Bearer {alice.token}\r\n"
    with socket.create_connection(address) as connection:
        connection.sendall(f"GET /jobs HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{line}{line}\r\n".encode())
        assert b" 401 " in connection.recv(100)


def test_a_token_that_may_only_read_changes_nothing(shared: Deployment) -> None:
    reader = person(shared, "alice", scopes=[Scope.READ])
    with reader.api() as api:
        assert api.http.get("/jobs").status_code == 200
        for method, path in (
            ("POST", "/uploads"),
            ("POST", "/jobs"),
            ("DELETE", "/jobs/x"),
            ("POST", "/api/v2/me/tokens"),
        ):
            assert api.http.request(method, path).status_code == 403, path
        assert api.http.get("/api/v2/me").json()["scopes"] == ["read"]


def test_a_token_counts_more_than_the_session_beside_it(alice: Person, mallory: Person) -> None:
    with mallory.browser() as browser:
        assert browser.get("/api/v2/me", headers=alice.bearer).json()["user_id"] == "alice"
        wrong = {"Authorization": "Bearer x", "Accept": "application/json"}
        assert browser.get("/api/v2/me", headers=wrong).status_code == 401


# --- this machine's own user --------------------------------------------------------------------------
@pytest.fixture
def open_house(settings: Settings) -> Iterator[Within]:
    with within(settings) as house:
        yield house


def test_who_is_on_this_machine_is_its_administrator_while_no_accounts_are_demanded(open_house: Within) -> None:
    me = {"user_id": "local", "role": "admin", "scopes": ["admin", "read", "write"], "token_id": None}
    assert open_house.get("/api/v2/me").json().items() >= me.items()
    assert [user["name"] for user in open_house.get("/api/v2/users").json()["users"]] == ["local"]


@pytest.mark.parametrize(
    ("arrives_at", "headers"),
    [
        ("http://192.168.1.5", {}),
        ("http://[2001:db8::1]", {}),
        ("http://127.0.0.1", {"X-Forwarded-For": "1.2.3.4"}),
        ("http://127.0.0.1", {"Forwarded": "for=1.2.3.4"}),
        ("http://127.0.0.1", {"Via": "1.1 proxy"}),
    ],
)
def test_who_comes_from_elsewhere_needs_a_token_all_the_same(
    open_house: Within, arrives_at: str, headers: dict[str, str]
) -> None:
    client = Within(open_house.app, arrives_at, **headers)
    assert client.get("/jobs").status_code == 401
    token = open_house.post("/api/v2/me/tokens", json={}).json()["token"]
    assert client.get("/jobs", headers={"Authorization": f"Bearer {token}"}).status_code == 200


def test_a_session_that_has_ended_does_not_keep_this_machines_user_out(open_house: Within) -> None:
    assert open_house.get("/api/v2/me", headers={"Cookie": f"{COOKIE}=ended"}).status_code == 200


@pytest.mark.parametrize(
    ("given", "is_demanded"),
    [
        ({}, False),
        ({"host": "localhost"}, False),
        ({"host": "::1"}, False),
        ({"public_url": "http://localhost:8080"}, False),
        ({"accounts": True}, True),
        ({"host": "0.0.0.0"}, True),
        ({"host": "::"}, True),
        ({"host": "mill.example"}, True),
        ({"public_url": "https://mill.example"}, True),
        ({"public_url": "http://127.0.0.1.mill.example"}, True),
    ],
)
def test_accounts_are_demanded_as_soon_as_others_can_reach_the_web(given: dict[str, object], is_demanded: bool) -> None:
    assert Settings(**given).demands_accounts is is_demanded  # type: ignore[arg-type]


# --- the page -----------------------------------------------------------------------------------------
def test_a_pasted_token_opens_a_session_and_leads_back(stranger: httpx.Client, alice: Person) -> None:
    answer = stranger.get("/ui/jobs?q=x", headers={"Accept": "text/html"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/ui/login?next=/ui/jobs%3Fq%3Dx")
    page = stranger.get(answer.headers["location"])
    assert page.headers["cache-control"] == "no-store" and 'value="/ui/jobs?q=x"' in page.text
    signed_in = stranger.post("/ui/login", data={"token": f" {alice.token}\n", "next": "/ui/jobs?q=x"}, headers=OURS)
    assert (signed_in.status_code, signed_in.headers["location"]) == (303, "/ui/jobs?q=x")
    cookie = signed_in.headers["set-cookie"]
    assert cookie.startswith(f"{COOKIE}=") and alice.token not in cookie
    assert {"HttpOnly", "Path=/", "SameSite=lax"} <= {part.strip() for part in cookie.split(";")}
    assert "Secure" not in cookie
    assert stranger.get("/ui/login").headers["location"] == "/ui/jobs"
    assert "alice" in stranger.get("/ui/jobs").text


@pytest.mark.parametrize("target", ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:alert(1)"])
def test_signing_in_leads_nowhere_else(alice: Person, stranger: httpx.Client, target: str) -> None:
    answer = stranger.post("/ui/login", data={"token": alice.token, "next": target}, headers=OURS)
    assert answer.headers["location"] == "/ui/jobs"


def test_over_https_the_cookie_is_for_https_alone(settings: Settings) -> None:
    with within(settings.model_copy(update={"public_url": "https://127.0.0.1"})) as house:
        token = house.post("/api/v2/me/tokens", json={}).json()["token"]
        answer = house.post("/ui/login", data={"token": token}, headers=OURS)
        assert "Secure" in answer.headers["set-cookie"]


def test_signing_in_again_and_signing_out_end_the_session(alice: Person) -> None:
    with alice.browser() as browser:
        first = browser.cookies[COOKIE]
        browser.post("/ui/login", data={"token": alice.token}, headers=OURS)
        second = browser.cookies[COOKIE]
        assert second != first
        browser.post("/ui/logout", headers=OURS)
        assert COOKIE not in browser.cookies
        for ended in (first, second):
            answer = browser.get("/ui/jobs", headers={"Cookie": f"{COOKIE}={ended}"})
            assert answer.headers.get("location", "").startswith("/ui/login"), ended


def test_a_revoked_token_leads_to_the_log_in_at_the_next_click(shared: Deployment) -> None:
    ann = person(shared, "ann")
    with ann.browser() as browser:
        assert browser.get("/ui/jobs").status_code == 200
        with accounts_of(shared) as accounts:
            accounts.tokens.revoke("ann", ann.token.split("_")[1], by="test")
        assert browser.get("/ui/jobs").headers["location"].startswith("/ui/login")
        fragment = browser.get(
            "/ui/jobs/live?ids=x", headers={"HX-Request": "true", "HX-Current-URL": f"{shared.url}/ui/jobs"}
        )
        assert (fragment.status_code, fragment.headers["hx-redirect"]) == (401, "/ui/login?next=/ui/jobs")
        script = browser.get("/ui/jobs", headers={"Sec-Fetch-Mode": "cors"})
        assert script.status_code == 401


def test_while_nobody_can_sign_in_the_page_says_what_to_do(settings: Settings) -> None:
    with within(settings.model_copy(update={"accounts": True})) as house:
        assert "modelmill users create" in house.get("/ui/login").text
        accounts = house.app.state.container.accounts
        accounts.users.create("root-admin", Role.ADMIN, by="test")
        accounts.tokens.issue("root-admin", by="test")
        assert "modelmill users create" not in house.get("/ui/login").text


# --- streams ------------------------------------------------------------------------------------------
def test_the_stream_of_a_disabled_user_ends(shared: Deployment, admin: Person) -> None:
    with person(shared, "streaming").api() as api, shared.paused(shared.processes[0]):  # the job does not end
        job_id = api.start(small_model(), pngs(2))
        with api.http.stream("GET", f"/jobs/{job_id}/events") as stream:
            frames = events(stream.iter_lines())
            assert next(frames)[0] == "status"
            with accounts_of(shared) as accounts:
                accounts.users.change("streaming", by="test", is_enabled=False)
            assert list(frames) == []  # it has come to an end, and a whole one
        assert api.http.get(f"/jobs/{job_id}").status_code == 401
        with admin.api() as office:
            office.http.post(f"/jobs/{job_id}/cancel")


# --- starting -----------------------------------------------------------------------------------------
def test_a_web_that_demands_accounts_does_not_start_without_a_lasting_key(tmp_path: Path) -> None:
    with Deployment(tmp_path, accounts="true") as deployment:
        del deployment.env["MODELMILL_SECRET_KEY"]
        assert started(deployment) == Exit.BAD_INPUT
        log = (tmp_path / "0.log").read_text()
    assert "MODELMILL_SECRET_KEY" in log and "openssl rand" in log and "Traceback" not in log


def test_a_web_does_not_start_on_a_database_from_the_future(tmp_path: Path) -> None:
    with Deployment(tmp_path) as deployment:
        app = create_app(deployment.settings())
        app.state.container.prepare()
        with app.state.container.database.write() as conn:
            conn.execute(text("UPDATE alembic_version SET version_num = '9999'"))
        app.state.container.close()
        assert started(deployment) == Exit.FAILED
        log = (tmp_path / "0.log").read_text()
    assert "9999" in log and "newer" in log and "Traceback" not in log


def started(deployment: Deployment) -> int:
    command = [sys.executable, "-m", "uvicorn", "app.main:create_app", "--factory", "--port", str(deployment.web_port)]
    return deployment.start(command).wait(PATIENCE_S)
