"""The pages of data homes as a browser without scripts uses them: plain forms, links, and what they say."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from app.homes.model import HomesOptions
from app.homes.retention import Folders
from app.kit.clock import now
from app.kit.sql import Database
from tests.harness.api import keys, png, pngs, small_model, store_of, zipped
from tests.harness.deployment import Deployment
from tests.harness.page_text import text_of
from tests.harness.users import Person, make_users, person

QUOTA = 4 << 20


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    settings = {"home_quota_bytes": str(QUOTA), "jobs_trash_after_days": "5", "jobs_purge_after_days": "9"}
    with Deployment(tmp_path_factory.mktemp("pages"), accounts="true", **settings) as deployment:
        deployment.web()
        make_users(deployment, "alice", "bob")
        yield deployment


@pytest.fixture(scope="module")
def alice_here(deployment: Deployment) -> Person:
    return person(deployment, "alice")


@pytest.fixture
def web(alice_here: Person) -> Iterator[httpx.Client]:
    with alice_here.browser() as client:
        yield client


@pytest.fixture
def home(deployment: Deployment, web: httpx.Client) -> Path:
    assert web.get("/ui/data/files").status_code == 200
    return deployment.settings().homes / "users" / "alice"


def test_the_data_page_says_what_the_settings_say(web: httpx.Client, deployment: Deployment) -> None:
    page = text_of(web.get("/ui/data"))
    assert f"sftp -P {deployment.settings().sftp_port} alice@127.0.0.1" in page
    assert "/private/users/alice" in page and "of 4.0 MiB are used" in page
    assert "goes to the trash 5 days after the job has ended, and is deleted for good 9 days later" in page


def test_the_data_page_shows_when_the_folder_of_a_job_goes(web: httpx.Client, deployment: Deployment) -> None:
    database = Database(deployment.settings().database)
    folders = Folders(database, HomesOptions(deployment.settings().homes))
    folders.begun("alice", "job-1", now=now() - timedelta(days=3))
    folders.ended("alice", "job-1", now() - timedelta(days=2))
    folders.begun("bob", "job-of-bob", now=now())
    database.close()
    page = text_of(web.get("/ui/data"))
    assert re.search(r"job-1 .* in 3 days in 12 days", page) and "job-of-bob" not in page


def test_files_are_sent_by_a_plain_form_and_what_is_there_is_kept(web: httpx.Client, home: Path) -> None:
    files = [("file", ("a.csv", b"a")), ("file", ("b.csv", b"b" * 300_000))]
    sent = web.post("/ui/data/upload/datasets", files=files)
    assert sent.status_code == 303
    assert "2 files were uploaded" in text_of(web.get(sent.headers["location"]))
    assert (home / "datasets/b.csv").read_bytes() == b"b" * 300_000
    again = web.post("/ui/data/upload/datasets", files=[("file", ("c.csv", b"c")), ("file", ("a.csv", b"other"))])
    assert again.status_code == 409
    assert "There is something at datasets/a.csv already" in text_of(again)
    assert "1 file was stored before that: c.csv" in text_of(again)
    assert (home / "datasets/a.csv").read_bytes() == b"a"
    over = web.post("/ui/data/upload/datasets", data={"replace": "1"}, files=[("file", ("a.csv", b"other"))])
    assert over.status_code == 303 and (home / "datasets/a.csv").read_bytes() == b"other"


def test_a_form_that_does_not_fit_the_quota_leaves_nothing_of_the_file_that_did_not(
    web: httpx.Client, home: Path
) -> None:
    answer = web.post("/ui/data/upload/datasets", files=[("file", ("huge", b"x" * (QUOTA + 1)))])
    assert answer.status_code == 413 and "may hold" in text_of(answer)
    assert not (home / "datasets/huge").exists() and list((home / "tmp").iterdir()) == []


@pytest.mark.parametrize("folder", ["jobs", "trash/files", "", "../bob/datasets", "/private/common/datasets"])
def test_a_form_puts_files_nowhere_else(web: httpx.Client, home: Path, folder: str) -> None:
    before = sorted(home.parent.parent.rglob("*"))
    answer = web.post(f"/ui/data/upload/{folder}", files=[("file", ("x", b"x"))])
    assert answer.status_code in (404, 422)
    assert sorted(home.parent.parent.rglob("*")) == before


def test_what_is_deleted_is_undone_by_the_notice(web: httpx.Client, home: Path) -> None:
    (home / "datasets/dear.txt").write_text("dear")
    gone = web.post("/ui/data/delete", data={"path": "datasets/dear.txt"})
    assert gone.status_code == 303 and not (home / "datasets/dear.txt").exists()
    page = web.get(gone.headers["location"])
    assert "dear.txt is in the trash" in text_of(page)
    fields = {
        name: html.unescape(value) for name, value in re.findall(r'name="(source|target)" value="([^"]+)"', page.text)
    }
    assert web.post("/ui/data/restore", data=fields).status_code == 303
    assert (home / "datasets/dear.txt").read_text() == "dear"


def test_what_is_in_the_trash_is_shown_by_its_name_restored_or_deleted_after_a_question(
    web: httpx.Client, home: Path
) -> None:
    (home / "models/net.bin").write_bytes(b"net")
    web.post("/ui/data/delete", data={"path": "models/net.bin"})
    listing = web.get("/ui/data/files/trash/files")
    trashed = next(path.name for path in (home / "trash/files").iterdir() if path.name.endswith("net.bin"))
    assert re.search(r"> *net\.bin *<", listing.text) and "deleted for good after 9 days" in text_of(listing)
    move = web.get("/ui/data/move", params={"path": f"trash/files/{trashed}"})
    assert 'name="name" value="net.bin"' in move.text
    form = {"source": f"trash/files/{trashed}", "folder": "models", "name": "net.bin"}
    assert web.post("/ui/data/move", data=form).status_code == 303
    assert (home / "models/net.bin").read_bytes() == b"net"
    web.post("/ui/data/delete", data={"path": "models/net.bin"})
    trashed = next(path.name for path in (home / "trash/files").iterdir() if path.name.endswith("net.bin"))
    question = web.get("/ui/data/delete", params={"path": f"trash/files/{trashed}"})
    assert "Delete net.bin for good?" in text_of(question)
    web.post("/ui/data/delete", data={"path": f"trash/files/{trashed}"})
    assert not (home / "trash/files" / trashed).exists()


def test_a_file_is_renamed_and_moved_and_a_taken_name_is_told(web: httpx.Client, home: Path) -> None:
    assert web.post("/ui/data/folders", data={"path": "datasets", "name": "sub"}).status_code == 303
    (home / "datasets/one").write_text("1")
    (home / "datasets/sub/two").write_text("2")
    page = web.get("/ui/data/move", params={"path": "datasets/one"})
    assert "datasets%2Fsub" in page.text
    taken = web.post("/ui/data/move", data={"source": "datasets/one", "folder": "datasets/sub", "name": "two"})
    assert taken.status_code == 409 and "There is something at datasets/sub/two already" in text_of(taken)
    moved = web.post("/ui/data/move", data={"source": "datasets/one", "folder": "datasets/sub", "name": "three"})
    assert moved.headers["location"].startswith("/ui/data/files/datasets/sub")
    assert (home / "datasets/sub/three").read_text() == "1" and (home / "datasets/sub/two").read_text() == "2"


def test_a_thousand_files_are_gone_through_by_links(web: httpx.Client, home: Path) -> None:
    folder = home / "datasets/many"
    folder.mkdir()
    for number in range(1_000):
        (folder / f"f{number:05d}").touch()
    url, pages = "/ui/data/files/datasets/many?sort=-name", 0
    seen: list[str] = []
    while url:
        page = web.get(url).text
        seen += re.findall(r'title="(f\d{5})"', page)
        match = re.search(r'rel="next" href="([^"]+)"', page) or re.search(r'href="([^"]+)" rel="next"', page)
        url, pages = html.unescape(match[1]) if match else "", pages + 1
    assert pages == 5 and seen == [f"f{number:05d}" for number in reversed(range(1_000))]


def test_a_text_is_shown_as_text_and_only_its_beginning(web: httpx.Client, home: Path) -> None:
    (home / "datasets/page.html").write_text("<script>alert(1)</script>")
    assert "&lt;script&gt;alert(1)" in web.get("/ui/data/files/datasets/page.html").text
    (home / "datasets/long.txt").write_text("a" + "é" * 100_000)  # the end of the preview cuts through one
    shown = web.get("/ui/data/files/datasets/long.txt").text
    assert shown.count("é") == 32 * 1024 - 1 and "The first 64.0 KiB" in shown
    (home / "datasets/raw.bin").write_bytes(b"\0\1\2")
    assert "neither text nor a picture" in web.get("/ui/data/files/datasets/raw.bin").text


def test_a_picture_is_shown_small_and_what_is_none_is_told(web: httpx.Client, home: Path) -> None:
    (home / "datasets/p.png").write_bytes(png(1, side=700))
    (home / "datasets/broken.png").write_bytes(b"\x89PNG no")
    assert "/ui/data/picture?path=" in web.get("/ui/data/files/datasets/p.png").text
    small = web.get("/ui/data/picture", params={"path": "datasets/p.png"})
    assert small.headers["content-type"] == "image/jpeg" and len(small.content) < len(png(1, side=700))
    assert web.get("/ui/data/picture", params={"path": "datasets/broken.png"}).status_code == 422


@pytest.mark.parametrize("kind", ["folder", "zip", "model alone"])
def test_a_model_goes_with_its_pictures_to_the_form_of_a_new_conversion(
    web: httpx.Client, home: Path, deployment: Deployment, kind: str
) -> None:
    (home / "models/net.onnx").write_bytes(small_model())
    samples = home / "datasets/samples"
    (samples / "inner").mkdir(parents=True, exist_ok=True)
    for name, data in pngs(3):
        (samples / name).write_bytes(data)
    (samples / "inner/0.png").write_bytes(png(9))  # of the same name as another
    (samples / "notes.txt").write_text("no sample")
    (home / "datasets/samples.zip").write_bytes(zipped(pngs(4)))
    assert "/ui/jobs/from-data?model=" in web.get("/ui/data/files/models/net.onnx").text
    choose = web.get("/ui/jobs/from-data", params={"model": "models/net.onnx", "folder": "datasets/samples"})
    assert "3 pictures or arrays here" in text_of(choose)
    images = {"folder": "datasets/samples", "zip": "/private/users/alice/datasets/samples.zip", "model alone": ""}[kind]
    sent = web.post("/ui/jobs/from-data", data={"model": "models/net.onnx", "images": images})
    assert sent.status_code == 303, text_of(sent)
    page = web.get(sent.headers["location"])
    count = {"folder": 4, "zip": 4, "model alone": 0}[kind]
    assert "net.onnx" in page.text and (f"{count} samples" in text_of(page)) is bool(count)
    given = parse_qs(urlsplit(sent.headers["location"]).query)
    assert b"".join(store_of(deployment).read(given["model_key"][0])) == small_model()
    assert (home / "models/net.onnx").read_bytes() == small_model()


def test_a_folder_without_samples_and_a_model_of_another_are_refused(
    web: httpx.Client, home: Path, deployment: Deployment
) -> None:
    (home / "models/net.onnx").write_bytes(small_model())
    (home / "datasets/empty").mkdir(exist_ok=True)
    before = keys(deployment, "uploads/")
    none = web.post("/ui/jobs/from-data", data={"model": "models/net.onnx", "images": "datasets/empty"})
    assert none.status_code == 422 and "no reference sample" in text_of(none)
    for data in ({"model": "/private/users/bob/models/x.onnx"}, {"model": "models/net.onnx", "images": "/etc"}):
        assert web.post("/ui/jobs/from-data", data=data).status_code == 422
    assert keys(deployment, "uploads/") == before


def test_the_one_time_password_is_asked_for_shown_once_and_never_stored_by_a_browser(web: httpx.Client) -> None:
    assert "stops working immediately" in text_of(web.get("/ui/data/sftp-password"))
    shown = web.post("/ui/data/sftp-password")
    password = re.search(r'<code class="token"[^>]*>([^<]+)<', shown.text)
    assert password is not None and shown.headers["cache-control"] == "no-store"
    for path in ("/ui/data", "/ui/data/sftp-password"):
        assert password[1] not in web.get(path).text


def test_an_own_password_and_keys_are_set_and_what_is_wrong_is_told_beside_them(web: httpx.Client) -> None:
    differ = web.post("/ui/data/sftp-password/own", data={"password": "one password", "again": "another password"})
    assert differ.status_code == 422 and "The two passwords differ" in text_of(differ)
    assert "You have not chosen a password yet" in text_of(web.get("/ui/data"))
    same = web.post("/ui/data/sftp-password/own", data={"password": "one password", "again": "one password"})
    assert same.status_code == 303
    assert "You have not chosen a password yet" not in text_of(web.get("/ui/data"))
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl me@laptop"
    assert web.post("/ui/data/ssh-keys", data={"key": key}).status_code == 303
    secret = web.post("/ui/data/ssh-keys", data={"key": "-----BEGIN OPENSSH PRIVATE KEY-----"})
    assert secret.status_code == 422 and "private key" in text_of(secret)
    assert "SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU" in web.get("/ui/data").text
    assert "Ends with the token" in text_of(web.get("/ui/data")) and "Keep" not in text_of(web.get("/ui/data"))
    assert web.post("/ui/data/ssh-keys/remove", data={"key": key}).status_code == 303
    assert "SHA256:" not in web.get("/ui/data").text


def test_a_key_that_another_token_set_is_kept_by_who_is_signed_in(web: httpx.Client, deployment: Deployment) -> None:
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl me@laptop"
    with person(deployment, "alice", label="of another").api() as api:
        assert api.http.put("/api/v2/me/ssh-keys", json={"keys": [key]}).status_code == 200
    before = text_of(web.get("/ui/data"))
    assert "Ends with the token of another" in before and "Keep" in before
    assert web.post("/ui/data/ssh-keys", data={"key": key}).status_code == 303
    after = text_of(web.get("/ui/data"))
    assert "of another" not in after and "Keep" not in after
    web.post("/ui/data/ssh-keys/remove", data={"key": key})


def test_another_users_files_are_on_no_page(web: httpx.Client, deployment: Deployment) -> None:
    with person(deployment, "bob").api() as api:
        put = api.http.put("/api/v2/files/content", params={"path": "datasets/bobs-secret"}, content=b"of bob")
        assert put.status_code == 201
    for path in (
        "/ui/data",
        "/ui/data/files",
        "/ui/data/files/datasets",
        "/ui/data/files/..%2Fbob%2Fdatasets",
        "/ui/data/files/%2Fprivate%2Fusers%2Fbob%2Fdatasets",
        "/ui/data/common/..%2Fusers%2Fbob%2Fdatasets",
        "/ui/data/download?path=/private/users/bob/datasets/bobs-secret",
        "/ui/data/move?path=../bob/datasets/x",
        "/ui/data/picture?path=/private/users/bob/datasets/bobs-secret",
        "/ui/jobs/from-data?model=x&folder=/private/users/bob/datasets",
    ):
        answer = web.get(path)
        assert b"of bob" not in answer.content
        assert "bobs-secret" not in answer.text.replace("/private/users/bob/datasets/bobs-secret", "")
