"""Managing users and tokens: by the API, on the pages, from the command line."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.accounts.cli import seconds_of, size_of
from app.accounts.model import Role, is_name
from app.kit.cli.command import Exit
from app.kit.errors import BadInput
from app.settings import Settings
from tests.harness import command_line
from tests.harness.api import Api, pngs, small_model
from tests.harness.deployment import Deployment
from tests.harness.users import Person, Within, person, within

TOKEN = re.compile(r"mm_[0-9a-f]{12}_[A-Za-z0-9_-]{43}")


@pytest.fixture
def office(admin: Person) -> Iterator[httpx.Client]:
    with admin.api() as api:
        yield api.http


# --- the API ------------------------------------------------------------------------------------------
def test_a_user_lives_from_creation_to_deletion_in_the_api(office: httpx.Client, shared: Deployment) -> None:
    created = office.post("/api/v2/users", json={"name": "carol", "quota_bytes": 5})
    assert (created.status_code, created.headers["location"]) == (201, "/api/v2/users/carol")
    told = created.json()
    assert len(told.pop("sftp_password")) >= 16 and created.headers["cache-control"] == "no-store"
    assert office.get("/api/v2/users/carol").json() == told
    assert office.post("/api/v2/users", json={"name": "carol"}).status_code == 409
    assert office.post("/api/v2/users", json={"name": "Carol/.."}).status_code == 422
    issued = office.post("/api/v2/users/carol/tokens", json={"label": "laptop", "ttl_s": 60})
    assert issued.status_code == 201 and issued.headers["cache-control"] == "no-store"
    bearer = {"Authorization": f"Bearer {issued.json()['token']}"}
    me = {"user_id": "carol", "role": "user", "scopes": ["read", "write"], "token_id": issued.json()["token_id"]}
    assert office.get("/api/v2/me", headers=bearer).json().items() >= me.items()
    listed = office.get("/api/v2/users/carol/tokens").json()["tokens"]
    assert [token["label"] for token in listed] == ["laptop"] and "token" not in listed[0]
    assert issued.json()["token"] not in office.get("/api/v2/audit").text
    patched = office.patch("/api/v2/users/carol", json={"is_enabled": False, "quota_bytes": None})
    facts = [patched.json()[name] for name in ("is_enabled", "quota_bytes", "role")]
    assert facts == [False, None, "user"]
    assert office.get("/api/v2/me", headers=bearer).status_code == 401
    assert office.delete("/api/v2/users/carol").status_code == 204
    assert office.get("/api/v2/users/carol").status_code == 404
    again = office.post("/api/v2/users", json={"name": "carol"})
    assert (again.status_code, again.json()["error"]["code"]) == (409, "NAME_WAS_USED")
    actions = [entry["action"] for entry in office.get("/api/v2/audit?subject=user:carol").json()["entries"]]
    assert (actions[0], actions[-2:]) == ("user.deleted", ["token.issued", "user.created"])
    assert sorted(actions[1:-2]) == ["user.disabled", "user.quota_bytes"]


def test_an_sftp_password_is_told_at_creation_and_at_each_reset_and_nowhere_else(
    office: httpx.Client, shared: Deployment
) -> None:
    first = office.post("/api/v2/users", json={"name": "sftp-api"}).json()["sftp_password"]
    reset = office.post("/api/v2/users/sftp-api/sftp-reset")
    assert reset.status_code == 201 and reset.headers["cache-control"] == "no-store"
    assert reset.json()["password"] != first
    [entry, created] = office.get("/api/v2/audit?subject=user:sftp-api").json()["entries"]
    assert (entry["action"], entry["actor"], created["action"]) == ("door.password_reset", "root-admin", "user.created")
    assert office.post("/api/v2/users/nobody-there/sftp-reset").json()["error"]["code"] == "USER_NOT_FOUND"
    for path in ("users", "users/sftp-api", "users/sftp-api/tokens", "audit"):
        answer = office.get(f"/api/v2/{path}").text
        assert first not in answer and reset.json()["password"] not in answer
    with person(shared, "sftp-api").api() as own:
        assert own.http.post("/api/v2/users/sftp-api/sftp-reset").status_code == 404


def test_ones_own_tokens_are_issued_listed_and_revoked(shared: Deployment) -> None:
    dave = person(shared, "dave")
    with dave.api() as api:
        made = api.http.post("/api/v2/me/tokens", json={"scopes": ["read"]}).json()
        assert made["scopes"] == ["read"]
        assert api.http.post("/api/v2/me/tokens", json={"scopes": ["admin"]}).status_code == 422
        assert made["token_id"] in api.http.get("/api/v2/me/tokens").text
        assert api.http.delete(f"/api/v2/me/tokens/{made['token_id']}").status_code == 204
        bearer = {"Authorization": f"Bearer {made['token']}"}
        assert api.http.get("/api/v2/me", headers=bearer).status_code == 401


def test_an_administrators_token_without_the_scope_manages_nobody(shared: Deployment, admin: Person) -> None:
    with admin.api() as api:
        weak = api.http.post("/api/v2/me/tokens", json={"scopes": ["write"]}).json()["token"]
        bearer = {"Authorization": f"Bearer {weak}"}
        assert api.http.get("/api/v2/users", headers=bearer).status_code == 404
        assert api.http.post("/api/v2/me/tokens", json={"scopes": ["admin"]}, headers=bearer).status_code == 422


def test_pages_of_users_follow_each_other(office: httpx.Client, shared: Deployment) -> None:
    for name in ("page-a", "page-b", "page-c"):
        person(shared, name)
    first = office.get("/api/v2/users?q=page-&limit=2").json()
    assert ([user["name"] for user in first["users"]], first["next_after"]) == (["page-a", "page-b"], "page-b")
    rest = office.get("/api/v2/users?q=page-&limit=2&after=page-b").json()
    assert ([user["name"] for user in rest["users"]], rest["next_after"]) == (["page-c"], None)


def test_a_user_with_jobs_under_way_is_deleted_only_with_them(
    office: httpx.Client, admin: Person, shared: Deployment
) -> None:
    with person(shared, "eve").api() as api, shared.paused(shared.processes[0]):
        job_id = api.start(small_model(), pngs(2))
        refused = office.delete("/api/v2/users/eve")
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "USER_IS_BUSY")
        assert refused.json()["error"]["detail"] == {"jobs": 1}
        assert office.get("/api/v2/users/eve").json()["is_enabled"]
        with admin.browser() as browser:
            assert "1 running job is cancelled" in browser.get("/ui/admin/users/eve/delete").text
        assert office.delete("/api/v2/users/eve?cancel=true").status_code == 204
    assert shared.redis.hget(f"job:{job_id}", "status") == b"FAILED"


def password_on(page: httpx.Response) -> str:
    """The one-time password that this page shows."""
    [shown] = re.findall(r'<code class="token"[^>]*>([^<]+)<', page.text)
    assert page.status_code == 200 and page.headers["cache-control"] == "no-store"
    return str(shown)


# --- the pages ----------------------------------------------------------------------------------------
def test_an_administrator_manages_a_user_on_the_pages(admin: Person, shared: Deployment) -> None:
    with admin.browser() as office:
        made = office.post("/ui/admin/users", data={"name": "frank", "role": "user"})
        first = password_on(made)
        assert "/ui/admin/users/frank?note=created" in made.text
        assert "stay as they are" in office.get("/ui/admin/users/frank/sftp-password").text
        second = password_on(office.post("/ui/admin/users/frank/sftp-password"))
        shown = office.get("/ui/admin/users/frank").text
        assert first != second and "reset the SFTP password" in shown
        assert first not in shown and second not in shown
        assert "There is a user frank already" in office.post("/ui/admin/users", data={"name": "frank"}).text
        issued = office.post("/ui/admin/users/frank/tokens", data={"label": "x", "scope": "write", "days": "90"})
        [text] = set(TOKEN.findall(issued.text))
        assert issued.headers["cache-control"] == "no-store"
        assert not TOKEN.search(office.get("/ui/admin/users/frank").text)
        with Person("frank", text, shared.url).browser() as franks:
            assert "frank" in franks.get("/ui/jobs").text
            assert "/ui/admin/users" not in franks.get("/ui/jobs").text
            office.post("/ui/admin/users/frank/change", data={"enabled": "no"})
            assert franks.get("/ui/jobs").status_code == 303
        office.post("/ui/admin/users/frank/change", data={"enabled": "yes"})
        assert office.post("/ui/admin/users/frank/change", data={"role": "admin"}).status_code == 303
        office.post(f"/ui/admin/users/frank/tokens/{text.split('_')[1]}/revoke")
        assert "Revoked" in office.get("/ui/admin/users/frank").text
        assert "Delete the user frank?" in office.get("/ui/admin/users/frank/delete").text
        assert office.post("/ui/admin/users/frank/delete").headers["location"] == "/ui/admin/users?note=deleted"
        assert "deleted the user" in office.get("/ui/admin/users").text
        assert "No user matches" in office.get("/ui/admin/users?q=frank").text


def test_a_user_issues_and_revokes_tokens_on_the_account_page(shared: Deployment) -> None:
    with person(shared, "grace").browser() as browser:
        issued = browser.post("/ui/account/tokens", data={"label": "build", "scope": "read", "days": ""})
        [text] = set(TOKEN.findall(issued.text))
        page = browser.get("/ui/account").text
        assert "build" in page and text not in page
        assert browser.post("/ui/account/tokens", data={"scope": "admin"}).status_code == 422
        gone = browser.post(f"/ui/account/tokens/{text.split('_')[1]}/revoke")
        assert gone.headers["location"] == "/ui/account?note=revoked"


def test_a_token_that_made_others_is_revoked_with_or_without_them(shared: Deployment) -> None:
    with person(shared, "hugo").api() as api:
        first = api.http.post("/api/v2/me/tokens", json={}).json()
        makes = {"headers": {"Authorization": f"Bearer {first['token']}"}, "json": {}}
        made = [api.http.post("/api/v2/me/tokens", **makes).json() for _ in range(2)]
        assert {token["made_by"] for token in made} == {first["token_id"]}
        listed = {token["token_id"]: token for token in api.http.get("/api/v2/me/tokens").json()["tokens"]}
        assert listed[first["token_id"]]["valid_made"] == 2
        assert api.http.delete(f"/api/v2/me/tokens/{made[0]['token_id']}").status_code == 204
        told = api.http.delete(f"/api/v2/me/tokens/{first['token_id']}")
        assert told.status_code == 200
        assert told.json() == {"token_id": first["token_id"], "also_revoked": [], "still_valid": [made[1]["token_id"]]}
        second = api.http.post("/api/v2/me/tokens", json={}).json()
        below = api.http.post(
            "/api/v2/me/tokens", headers={"Authorization": f"Bearer {second['token']}"}, json={}
        ).json()
        told = api.http.delete(f"/api/v2/me/tokens/{second['token_id']}?with_made=true")
        assert told.json()["also_revoked"] == [below["token_id"]]
        listed = {token["token_id"]: token for token in api.http.get("/api/v2/me/tokens").json()["tokens"]}
        assert listed[below["token_id"]]["revoked_at"] and not listed[made[1]["token_id"]]["revoked_at"]


def test_the_account_page_offers_to_revoke_what_a_token_made(shared: Deployment) -> None:
    ivy = person(shared, "ivy")
    token_id = ivy.token.split("_")[1]
    with ivy.api() as api:
        made = [api.http.post("/api/v2/me/tokens", json={}).json() for _ in range(2)]
    with Person("ivy", made[0]["token"], shared.url).browser() as browser:
        page = browser.get("/ui/account").text
        assert "made 2 tokens that are valid" in page and 'name="with_made"' in page
        gone = browser.post(f"/ui/account/tokens/{token_id}/revoke")
        assert gone.headers["location"] == "/ui/account?note=revoked&left=2"
        assert "2 tokens that it made are still valid" in browser.get(gone.headers["location"]).text
    with person(shared, "ivy").browser() as browser:
        below = Person("ivy", made[1]["token"], shared.url)
        with below.api() as api:
            api.http.post("/api/v2/me/tokens", json={})
        gone = browser.post(f"/ui/account/tokens/{made[1]['token_id']}/revoke", data={"with_made": "yes"})
        assert gone.headers["location"] == "/ui/account?note=revoked"
        assert "valid_made" not in gone.text


def test_an_administrator_revokes_what_a_users_token_made(shared: Deployment, admin: Person) -> None:
    jane = person(shared, "jane")
    with jane.api() as api:
        api.http.post("/api/v2/me/tokens", json={})
    with admin.browser() as office:
        assert "made 1 token that is valid" in office.get("/ui/admin/users/jane").text
        token_id = jane.token.split("_")[1]
        gone = office.post(f"/ui/admin/users/jane/tokens/{token_id}/revoke", data={"with_made": "yes"})
        assert gone.headers["location"] == "/ui/admin/users/jane?note=revoked"
        assert "that is valid" not in office.get("/ui/admin/users/jane").text


# --- the command line ---------------------------------------------------------------------------------
def modelmill(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MODELMILL_")}
    return command_line.run(*arguments, environment={**kept, **environment})


def test_the_first_administrator_is_made_on_the_command_line(tmp_path: Path) -> None:
    place = ("--data-dir", str(tmp_path / "data"))
    made = modelmill("users", "create", "boss", "--admin", "--quota", "10GB", "--quota-files", "7", *place)
    first = made.stdout.strip()
    assert made.returncode == Exit.OK and len(first) >= 16 and first not in made.stderr
    issued = modelmill("users", "token", "boss", "--scope", "read", "--ttl", "90d", *place)
    assert TOKEN.fullmatch(issued.stdout.strip()) and issued.stdout.strip() not in issued.stderr
    [boss] = json.loads(modelmill("users", "list", "--json", *place).stdout)
    facts = [boss[name] for name in ("name", "role", "quota_bytes", "quota_files")]
    assert facts == ["boss", "admin", 10_000_000_000, 7]
    assert modelmill("users", "disable", "boss", *place).returncode == Exit.BAD_INPUT
    token_id = issued.stdout.split("_")[1]
    assert modelmill("users", "revoke", "boss", token_id, *place).returncode == Exit.OK
    assert modelmill("users", "revoke", "boss", token_id, *place).returncode == Exit.NOT_FOUND
    assert modelmill("db", "current", *place).stdout.strip() == modelmill("db", "upgrade", *place).stdout.split()[-1]
    open_to_others = [path for path in (tmp_path / "data").iterdir() if path.stat().st_mode & 0o077]
    assert open_to_others == []
    reset = modelmill("users", "sftp-reset", "boss", *place)
    assert reset.returncode == Exit.OK and reset.stdout.strip() not in ("", first)
    assert modelmill("users", "sftp-reset", "nobody", *place).returncode == Exit.NOT_FOUND


def test_a_token_of_the_command_line_signs_in_at_the_running_web(shared: Deployment) -> None:
    place = {"MODELMILL_DATA_DIR": shared.env["MODELMILL_DATA_DIR"], "MODELMILL_SECRET_KEY": "bench"}
    modelmill("users", "create", "typed", **place)
    token = modelmill("users", "token", "typed", **place).stdout.strip()
    refused = modelmill("--url", shared.url, "jobs", "list")
    assert refused.returncode == Exit.BAD_INPUT and "MODELMILL_TOKEN" in refused.stderr
    listed = modelmill("--url", shared.url, "jobs", "list", MODELMILL_TOKEN=token)
    assert (listed.returncode, listed.stdout.strip()) == (Exit.OK, "There are no jobs.")


def test_a_database_elsewhere_needs_the_key_from_there(tmp_path: Path) -> None:
    done = modelmill("users", "list", MODELMILL_DATABASE_URL=f"sqlite:///{tmp_path}/x.db")
    assert done.returncode == Exit.BAD_INPUT and "MODELMILL_SECRET_KEY" in done.stderr


@pytest.mark.parametrize(
    ("text", "size"), [("10GB", 10**10), ("1.5 GiB", 3 << 29), ("500", 500), ("2kB", 2000), ("1T", 10**12)]
)
def test_sizes_are_understood(text: str, size: int) -> None:
    assert size_of(text) == size


@pytest.mark.parametrize("text", ["", "GB", "-1GB", "1XB", "1,5GB"])
def test_other_sizes_are_not(text: str) -> None:
    with pytest.raises(BadInput):
        size_of(text)


def test_times_are_understood() -> None:
    assert [seconds_of(text) for text in ("90d", "12h", "1y")] == [90 * 86400, 12 * 3600, 365 * 86400]
    with pytest.raises(BadInput):
        seconds_of("soon")


@pytest.mark.parametrize(
    ("name", "is_good"),
    [
        ("al", True),
        ("a.b-c_9", True),
        ("a", False),
        ("Al", False),
        ("9a", False),
        ("a..b", False),
        ("a/b", False),
        ("a\n", False),
        ("root", False),
        ("a" * 32, True),
        ("a" * 33, False),
        ("аlice", False),
        ("a-", False),
    ],
)
def test_a_users_name_is_safe_as_the_name_of_a_folder(name: str, is_good: bool) -> None:
    assert is_name(name) is is_good


def test_the_document_says_which_operations_need_a_token(api: Api) -> None:
    document: dict[str, Any] = api.http.get("/openapi.json").json()
    create = document["paths"]["/jobs"]["post"]
    assert create["security"] == [{}, {"token": []}, {"session": []}], "on this machine nobody needs one"
    assert {"401", "403", "429"} <= set(create["responses"])
    assert {
        path for path, of in document["paths"].items() for security in of.values() if security["security"] == []
    } == {
        "/healthz",
        "/readyz",
        "/metrics",
        "/openapi.json",
        "/receipts/key",
        "/objects/{key}",
        "/shared/{share_id}/files/{name}",
        "/device-results/{job_id}",
    }, "the last two ask for a key of their own"


def test_what_was_done_to_a_user_is_told_in_words_with_units(settings: Settings) -> None:
    with within(settings.model_copy(update={"accounts": True})) as web:
        accounts = web.app.state.container.accounts
        accounts.users.create("office", Role.ADMIN, by="test")
        accounts.users.create("carol", Role.USER, by="office")
        for quota in (20_000_000, 0):
            accounts.users.change("carol", by="office", quota_bytes=quota)
        accounts.users.change("carol", by="office", role=Role.ADMIN, groups=["lab", "night"], quota_files=1)
        _, token = accounts.tokens.issue("office", by="test")
        headers = {"Accept": "text/html", "Authorization": f"Bearer {token}"}
        page = Within(web.app, **headers).get("/ui/admin/users/carol").text
    cells = re.findall(r'class="audit-detail">(.*?)</td>', page, re.DOTALL)
    assert [" ".join(re.sub("<[^>]+>", "", cell).split()) for cell in cells] == [
        "the quota that all have → 1 file or folder",
        "none → lab, night",
        "User → Administrator",
        "19.1 MiB → no limit",
        "the quota that all have → 19.1 MiB",
        "role User",
    ]
