"""The API of data homes: whose paths are taken, ranges, uploads that do not fit, and what one user sees of another."""

from __future__ import annotations

import re
import select
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from app.accounts.model import Role
from tests.harness.deployment import Deployment
from tests.harness.until import PATIENCE_S, until
from tests.harness.users import Person, make_users, person

QUOTA = 3 << 20
CONTENT, FILES = "/api/v2/files/content", "/api/v2/files"


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with Deployment(tmp_path_factory.mktemp("homes"), accounts="true", home_quota_bytes=str(QUOTA)) as deployment:
        deployment.web()
        make_users(deployment, "alice", "bob")
        yield deployment


@pytest.fixture(scope="module")
def bob(deployment: Deployment) -> Person:
    return person(deployment, "bob")


@pytest.fixture(scope="module")
def alice_here(deployment: Deployment) -> Person:
    return person(deployment, "alice")


@pytest.fixture
def web(alice_here: Person, bob: Person) -> Iterator[httpx.Client]:
    """Alice's."""
    with alice_here.api() as api, bob.api() as other:
        other.http.put(CONTENT, params={"path": "datasets/secret"}, content=b"bob's")
        yield api.http


@pytest.fixture
def root(deployment: Deployment, web: httpx.Client) -> Path:
    """Of the storage, with alice's home in it."""
    assert web.get(FILES).status_code == 200
    return deployment.settings().homes


@pytest.fixture
def home(root: Path) -> Path:
    return root / "users" / "alice"


def put(web: httpx.Client, path: str, data: bytes = b"data", **headers: str) -> httpx.Response:
    return web.put(CONTENT, params={"path": path}, content=data, headers=headers)


def names(web: httpx.Client, path: str, **more: str) -> list[str]:
    return [entry["name"] for entry in web.get(FILES, params={"path": path, **more}).json()["entries"]]


def test_me_says_where_the_data_is_as_the_settings_do(web: httpx.Client, deployment: Deployment) -> None:
    me = web.get("/api/v2/me").json()
    settings = deployment.settings()
    assert me["user_id"] == "alice" and me["data"]["home"] == "/private/users/alice"
    assert me["data"]["folders"]["datasets"] == "/private/users/alice/datasets"
    assert me["data"]["sftp"] == {
        "host": "127.0.0.1",
        "port": settings.sftp_port,
        "username": "alice",
        "fingerprint": "",
        "password_token_id": None,
    }
    assert me["data"]["quota_bytes"] == QUOTA
    kept = me["data"]["retention"]
    assert (kept["jobs_trash_after_days"], kept["jobs_purge_after_days"]) == (
        settings.jobs_trash_after_days,
        settings.jobs_purge_after_days,
    )


def test_a_file_has_a_long_and_a_short_path(web: httpx.Client, home: Path) -> None:
    made = put(web, "/private/users/alice/datasets/long.csv", b"a,b")
    assert made.status_code == 201 and made.json()["path"] == "/private/users/alice/datasets/long.csv"
    assert (home / "datasets/long.csv").read_bytes() == b"a,b"
    assert web.get(CONTENT, params={"path": "datasets/long.csv"}).content == b"a,b"
    assert "long.csv" in names(web, "/private/users/alice/datasets/") and "long.csv" in names(web, "datasets")


def test_the_common_folder_is_read_by_all_and_written_by_none(web: httpx.Client, root: Path) -> None:
    (root / "common/datasets/shared.csv").write_bytes(b"for all")
    (root / "common/db").mkdir(exist_ok=True)
    (root / "common/db/users.sqlite").write_bytes(b"the service's own")
    path = "/private/common/datasets/shared.csv"
    assert web.get(CONTENT, params={"path": path}).content == b"for all"
    assert "db" not in names(web, "/private/common") and "datasets" in names(web, "/private/common")
    for hidden in ("/private/common/db", "/private/common/db/users.sqlite"):
        assert web.get(FILES, params={"path": hidden}).status_code == 404
        assert web.get(CONTENT, params={"path": hidden}).status_code == 404
    for answer in (
        put(web, path),
        web.delete(FILES, params={"path": path}),
        web.post(f"{FILES}/folders", json={"path": "/private/common/new"}),
        web.post(f"{FILES}/move", json={"source": path, "target": "datasets/mine"}),
        web.post(f"{FILES}/move", json={"source": "datasets", "target": path}),
    ):
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "PATH_REFUSED")
    assert (root / "common/datasets/shared.csv").read_bytes() == b"for all"


BAD_PATHS = [
    "/etc/passwd",
    "/etc/../etc/passwd",
    "/private/users/bob/datasets/secret",
    "/private/users/bob",
    "/private/users/alice/../bob/datasets/secret",
    "../bob/datasets/secret",
    "datasets/../../bob/datasets/secret",
    "/private//users/alice/datasets",
    "/private/users/alice//datasets",
    "datasets//x",
    "datasets/./x",
    "datasets/x\0.csv",
    "datasets/\u2025/x",
    "datasets/a\uff0fb",
    "datasets/a\u2044b",
    "datasets/x\u202ecsv.exe",
    "\uff0fprivate/users/bob",
    "/private/users/alic\u0435/datasets",
    "/private/common/../users/bob/datasets/secret",
    "/private/users",
    "/private",
    "/",
    "/private/users/alice2/x",
    "datasets/" + "x" * 300,
]


@pytest.mark.parametrize("path", BAD_PATHS, ids=ascii)
def test_a_path_that_leads_elsewhere_or_deceives_is_refused_wherever_it_is_given(
    web: httpx.Client, home: Path, path: str
) -> None:
    before = sorted(home.rglob("*"))
    refused = {
        "browse": web.get(FILES, params={"path": path}),
        "read": web.get(CONTENT, params={"path": path}),
        "write": put(web, path),
        "remove": web.delete(FILES, params={"path": path}),
        "folder": web.post(f"{FILES}/folders", json={"path": path}),
        "from": web.post(f"{FILES}/move", json={"source": path, "target": "models/taken"}),
        "to": web.post(f"{FILES}/move", json={"source": "datasets/none", "target": path}),
    }
    for use, answer in refused.items():
        assert answer.status_code == 422, (use, answer.text)
        assert answer.json()["error"]["detail"]["problems"][0]["at"] in ("path", "source", "target")
        assert b"bob's" not in answer.content
    assert sorted(home.rglob("*")) == before


def test_a_link_that_leads_out_is_refused_and_can_be_removed(web: httpx.Client, root: Path, home: Path) -> None:
    for name, target in (("out", "/etc"), ("to-bob", root / "users/bob"), ("up", "../../bob/datasets")):
        (home / "datasets" / name).symlink_to(target)
        for path in (f"datasets/{name}", f"datasets/{name}/secret", f"datasets/{name}/passwd"):
            for answer in (web.get(FILES, params={"path": path}), web.get(CONTENT, params={"path": path})):
                assert answer.status_code == 422, answer.text
                assert b"root:" not in answer.content and b"bob's" not in answer.content
        assert put(web, f"datasets/{name}/x").status_code == 422
        assert web.delete(FILES, params={"path": f"datasets/{name}"}).status_code == 200
    assert (root / "users/bob/datasets/secret").read_bytes() == b"bob's"


def test_a_part_of_a_file_is_served(web: httpx.Client) -> None:
    data = bytes(range(256)) * 1000
    put(web, "datasets/part.bin", data)
    params = {"path": "datasets/part.bin"}
    for header, part in (("bytes=0-9", data[:10]), ("bytes=255990-", data[255990:]), ("bytes=-5", data[-5:])):
        answer = web.get(CONTENT, params=params, headers={"Range": header})
        assert (answer.status_code, answer.content) == (206, part)
    assert answer.headers["content-range"] == "bytes 255995-255999/256000"
    assert web.get(CONTENT, params=params, headers={"Range": "bytes=256000-"}).status_code == 416
    whole = web.get(CONTENT, params=params)
    assert whole.content == data and "sandbox" in whole.headers["content-security-policy"]
    assert whole.headers["content-disposition"].startswith("attachment")
    known = web.get(CONTENT, params=params, headers={"If-None-Match": whole.headers["etag"]})
    assert known.status_code == 304


def test_what_a_user_brought_is_never_served_as_a_page(web: httpx.Client) -> None:
    put(web, "datasets/page.html", b"<script>alert(1)</script>")
    answer = web.get(CONTENT, params={"path": "datasets/page.html"})
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_file_is_written_over_unless_that_is_refused(web: httpx.Client, home: Path) -> None:
    assert put(web, "datasets/over", b"first").status_code == 201
    refused = put(web, "datasets/over", b"second", **{"If-None-Match": "*"})
    assert refused.status_code == 412 and (home / "datasets/over").read_bytes() == b"first"
    assert put(web, "datasets/over", b"third").status_code == 200
    assert (home / "datasets/over").read_bytes() == b"third"


def test_a_file_that_somebody_else_has_changed_is_neither_written_over_nor_removed(
    web: httpx.Client, home: Path
) -> None:
    read = put(web, "datasets/shared", b"first").json()["etag"]
    current = put(web, "datasets/shared", b"of somebody else").json()["etag"]
    for change in (put(web, "datasets/shared", b"mine", **{"If-Match": f'"{read}"'}), remove(web, "shared", read)):
        assert (change.status_code, change.json()["error"]["code"]) == (412, "PRECONDITION_FAILED")
        assert change.json()["error"]["detail"] == {"etag": current}
        assert (home / "datasets/shared").read_bytes() == b"of somebody else"
    again = put(web, "datasets/shared", b"mine", **{"If-Match": f'"{current}"'})
    assert again.status_code == 200 and (home / "datasets/shared").read_bytes() == b"mine"
    assert remove(web, "shared", again.json()["etag"]).status_code == 200
    assert put(web, "datasets/shared", b"mine", **{"If-Match": "*"}).status_code == 412
    assert not (home / "datasets/shared").exists()


def remove(web: httpx.Client, name: str, etag: str) -> httpx.Response:
    return web.delete("/api/v2/files", params={"path": f"datasets/{name}"}, headers={"If-Match": f'"{etag}"'})


def test_an_upload_that_grows_beyond_the_quota_is_cut_off_and_nothing_of_it_is_left(
    web: httpx.Client, home: Path
) -> None:
    def endless() -> Iterator[bytes]:  # without a Content-Length the size shows only as it comes
        for _ in range(64):
            yield b"x" * (1 << 18)

    used = web.get("/api/v2/me").json()["data"]["used_bytes"]
    try:
        answer = web.put(CONTENT, params={"path": "datasets/huge"}, content=endless())
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "QUOTA_EXCEEDED")
    except httpx.WriteError:
        pass  # the answer came before the end of the body, and the connection was closed
    until(lambda: not list((home / "tmp").iterdir()))
    assert not (home / "datasets/huge").exists()
    assert web.get("/api/v2/me").json()["data"]["used_bytes"] == used
    assert put(web, "datasets/small", b"fits").status_code in (200, 201)


def begun_upload(who: Person, path: str, size_bytes: int) -> socket.socket:
    """A connection on which the head of an upload was sent."""
    address = urlsplit(who.url)
    connection = socket.create_connection((str(address.hostname), int(address.port or 80)))
    head = (
        f"PUT {CONTENT}?path={path} HTTP/1.1\r\nHost: {address.netloc}\r\n"
        f"Authorization: Bearer {who.token}\r\nContent-Length: {size_bytes}\r\n\r\n"
    )
    connection.sendall(head.encode())
    return connection


def test_an_upload_that_breaks_off_leaves_nothing(web: httpx.Client, home: Path, alice_here: Person) -> None:
    with begun_upload(alice_here, "datasets/broken", 2_000_000) as connection:
        connection.sendall(b"x" * 1_500_000)
        until(lambda: list((home / "tmp").iterdir()))  # it has begun
    until(lambda: not list((home / "tmp").iterdir()))
    assert not (home / "datasets/broken").exists()


def test_a_folder_is_no_file_and_a_file_no_folder(web: httpx.Client) -> None:
    put(web, "datasets/plain", b"1")
    for answer, code in (
        (web.get(CONTENT, params={"path": "datasets"}), "NOT_A_FILE"),
        (web.get(FILES, params={"path": "datasets/plain"}), "NOT_A_FOLDER"),
    ):
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, code)


def test_an_upload_that_says_it_is_too_large_is_refused_while_it_would_still_fit(
    alice_here: Person, web: httpx.Client, home: Path
) -> None:
    with begun_upload(alice_here, "datasets/large", QUOTA + 1) as connection:
        for _ in range(20):
            connection.sendall(b"x" * (1 << 16))
            if select.select([connection], [], [], 0.5)[0]:
                break
        connection.settimeout(PATIENCE_S)
        assert connection.recv(100).startswith(b"HTTP/1.1 413")
    assert not (home / "datasets/large").exists()


def test_files_beyond_the_limit_are_refused_and_the_limit_is_told(deployment: Deployment) -> None:
    make_users(deployment, "few")
    with person(deployment, "root-admin", Role.ADMIN).api() as office:
        assert office.http.patch("/api/v2/users/few", json={"quota_files": 2}).json()["quota_files"] == 2
    few = person(deployment, "few")
    with few.api() as api:
        assert put(api.http, "datasets/a").status_code == 201
        assert api.http.post(f"{FILES}/folders", json={"path": "datasets/b"}).status_code == 201
        for refused in (
            put(api.http, "datasets/c"),
            api.http.post(f"{FILES}/folders", json={"path": "datasets/c"}),
        ):
            assert (refused.status_code, refused.json()["error"]["code"]) == (413, "TOO_MANY_FILES")
            assert "archive" in refused.json()["error"]["hint"]
        told = api.http.get("/api/v2/me").json()["data"]
        assert (told["quota_files"], told["used_files"]) == (2, 2)
    with few.browser() as browser:
        assert "of 2 files and folders" in re.sub(r"<[^>]+>", "", browser.get("/ui/data").text)
        form = {"path": "datasets", "name": "c"}
        assert "pack many small files" in browser.post("/ui/data/folders", data=form).text


def test_ten_thousand_files_are_told_page_by_page_in_every_order(web: httpx.Client, home: Path) -> None:
    folder = home / "datasets" / "many"
    folder.mkdir()
    for number in range(10_000):
        (folder / f"f{number:05d}").touch()
    (folder / "f00007").write_bytes(b"x" * 7)
    for sort, first in (("name", "f00000"), ("-name", "f09999"), ("-size", "f00007"), ("modified", "f00000")):
        seen, cursor = list[str](), None
        while True:
            params = {"path": "datasets/many", "limit": "1000", "sort": sort} | ({"cursor": cursor} if cursor else {})
            page = web.get(FILES, params=params).json()
            seen += [entry["name"] for entry in page["entries"]]
            cursor = page["next_cursor"]
            if cursor is None:
                break
        assert page["total"] == len(seen) == len(set(seen)) == 10_000
        assert seen[0] == first


def test_what_is_removed_can_be_moved_back_from_where_the_answer_says(web: httpx.Client, home: Path) -> None:
    put(web, "datasets/undo.csv", b"dear")
    trashed = web.delete(FILES, params={"path": "datasets/undo.csv"}).json()["trashed_to"]
    assert trashed.startswith("/private/users/alice/trash/files/") and not (home / "datasets/undo.csv").exists()
    moved = web.post(f"{FILES}/move", json={"source": trashed, "target": "datasets/undo.csv"})
    assert moved.json() == {"path": "/private/users/alice/datasets/undo.csv"}
    assert (home / "datasets/undo.csv").read_bytes() == b"dear"
    trashed = web.delete(FILES, params={"path": "datasets/undo.csv"}).json()["trashed_to"]
    assert web.delete(FILES, params={"path": trashed}).json() == {"trashed_to": None}


def test_a_result_outlives_its_job_when_it_is_moved_to_what_is_kept(web: httpx.Client, home: Path) -> None:
    (home / "jobs/j1").mkdir()
    (home / "jobs/j1/weights").write_bytes(b"w")
    answer = web.post(f"{FILES}/move", json={"source": "jobs/j1/weights", "target": "models/weights"})
    assert answer.status_code == 200 and (home / "models/weights").read_bytes() == b"w"
    back = web.post(f"{FILES}/move", json={"source": "models/weights", "target": "jobs/j1/weights"})
    assert back.status_code == 422


def test_a_folder_is_made_once(web: httpx.Client, home: Path) -> None:
    made = web.post(f"{FILES}/folders", json={"path": "datasets/new"})
    assert made.status_code == 201 and (home / "datasets/new").is_dir()
    assert web.post(f"{FILES}/folders", json={"path": "datasets/new"}).status_code == 409


def test_a_one_time_password_is_told_once_and_keys_are_kept_in_one_form(web: httpx.Client) -> None:
    first = web.post("/api/v2/me/sftp-password")
    assert first.status_code == 201 and first.headers["cache-control"] == "no-store"
    assert first.json()["password"] != web.post("/api/v2/me/sftp-password").json()["password"]
    assert web.put("/api/v2/me/sftp-password", json={"password": "short"}).status_code == 422
    assert web.put("/api/v2/me/sftp-password", json={"password": "long enough, this one"}).status_code == 204
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl me"
    assert web.put("/api/v2/me/ssh-keys", json={"keys": [f"  {key}\n", key]}).json()["keys"] == [key]
    token_id = web.get("/api/v2/me").json()["token_id"]
    assert web.get("/api/v2/me/ssh-keys").json() == {"keys": [key], "tokens": {key: token_id}}
    assert web.get("/api/v2/me").json()["data"]["sftp"]["password_token_id"] == token_id
    assert web.put("/api/v2/me/ssh-keys", json={"keys": ["ssh-ed25519 nonsense"]}).status_code == 422
    assert web.get("/api/v2/me/ssh-keys").json()["keys"] == [key]
