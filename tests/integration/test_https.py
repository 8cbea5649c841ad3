"""What changes over HTTPS: browsers are told to stay there, and the session's cookie is this host's alone."""

from __future__ import annotations

import httpx

from app.accounts.model import Role
from app.settings import Settings
from tests.harness.users import OURS, Within, within

HTTPS = {"public_url": "https://127.0.0.1"}
PLAIN, SECURE = "modelmill_session", "__Host-modelmill_session"


def signed_in(house: Within) -> httpx.Response:
    token = house.post("/api/v2/me/tokens", json={}).json()["token"]
    return house.post("/ui/login", data={"token": token}, headers=OURS)


def session_of(answer: httpx.Response) -> str:
    return answer.headers["set-cookie"].partition("=")[2].partition(";")[0]


def test_browsers_are_told_to_stay_with_https_and_only_there(settings: Settings) -> None:
    with within(settings) as house:
        assert "strict-transport-security" not in house.get("/healthz").headers
    with within(settings.model_copy(update=HTTPS)) as house:
        assert house.get("/healthz").headers["strict-transport-security"] == "max-age=31536000"


def test_the_cookie_is_named_so_that_no_neighbour_can_plant_it(settings: Settings) -> None:
    with within(settings) as house:
        assert signed_in(house).headers["set-cookie"].startswith(f"{PLAIN}=")
    with within(settings.model_copy(update=HTTPS)) as house:
        cookie = signed_in(house).headers["set-cookie"]
    assert cookie.startswith(f"{SECURE}=")
    parts = {part.strip() for part in cookie.split(";")}
    assert {"Secure", "Path=/", "HttpOnly"} <= parts and not any(part.startswith("Domain") for part in parts)


def test_over_https_a_session_under_the_plain_name_opens_nothing(settings: Settings) -> None:
    with within(settings.model_copy(update={**HTTPS, "accounts": True})) as house:
        token = _token(house)
        session = session_of(house.post("/ui/login", data={"token": token}, headers=OURS))
        assert house.get("/api/v2/me", headers={"Cookie": f"{SECURE}={session}"}).status_code == 200
        assert house.get("/api/v2/me", headers={"Cookie": f"{PLAIN}={session}"}).status_code == 401


def _token(house: Within) -> str:
    accounts = house.app.state.container.accounts
    accounts.users.create("alice", Role.USER, by="test")
    return str(accounts.tokens.issue("alice", by="test")[1])
