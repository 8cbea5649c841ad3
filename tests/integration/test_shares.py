"""A link to one job: others see it without an account, as long as it holds, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from urllib.parse import urlsplit

import pytest
import sqlalchemy as sa

from app.accounts.model import Role
from app.bootstrap.container import Container
from app.kit import clock
from app.kit.objects import StoreUnavailable
from app.settings import Settings
from app.shares.errors import TooManyShares
from app.shares.service import MOST
from app.shares.store import shares
from tests.harness.conversion_jobs import finished_job
from tests.harness.users import Within, within


@pytest.fixture
def web(settings: Settings) -> Iterator[Within]:
    with within(settings.model_copy(update={"accounts": True})) as client:
        yield client


@pytest.fixture
def container(web: Within) -> Container:
    return web.app.state.container  # type: ignore[no-any-return]


@pytest.fixture
def ada(web: Within, container: Container) -> Within:
    container.accounts.users.create("ada", Role.USER, by="test")
    token = container.accounts.tokens.issue("ada", by="test")[1]
    return Within(web.app, Authorization=f"Bearer {token}")


def path_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.path}?{parts.query}"


def test_whoever_has_the_link_sees_the_job_and_takes_its_files(web: Within, ada: Within, container: Container) -> None:
    job = finished_job(container, "ada", "yolo", files={"out.nef": b"the nef"})
    made = ada.post(f"/jobs/{job.job_id}/shares", json={"label": "the board's team"})
    assert made.status_code == 201, made.text
    page = path_of(made.json()["url"])
    answer = web.get(page)
    assert answer.status_code == 200
    assert "yolo" in answer.text
    files = re.findall(r"/files/([^?]+)\?", answer.text)
    assert files == ["out.nef", "out.onnx", "out.bie", "out.nef"], "what most want comes first"
    assert answer.headers["referrer-policy"] == "no-referrer"
    file = page.replace("/ui/shared/", "/shared/").replace("?", "/files/out.nef?")
    assert web.get(file).content == b"the nef"
    assert web.get(f"/jobs/{job.job_id}").status_code == 401, "nothing else is open"
    assert ada.get(f"/jobs/{job.job_id}/shares").json()["shares"][0]["last_used_at"]


def test_what_the_job_was_given_is_not_shared(web: Within, ada: Within, container: Container) -> None:
    job = finished_job(container, "ada")
    page = path_of(ada.post(f"/jobs/{job.job_id}/shares", json={}).json()["url"])
    for name in ("model.onnx", "quant.zip", "no-such-file"):
        file = page.replace("/ui/shared/", "/shared/").replace("?", f"/files/{name}?")
        assert web.get(file).status_code == 404


def test_a_link_ends_by_its_time_and_by_its_users_word(
    web: Within, ada: Within, container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = finished_job(container, "ada")
    first, second = (ada.post(f"/jobs/{job.job_id}/shares", json={"days": 1}).json() for _ in range(2))
    url = f"/jobs/{job.job_id}/shares/{first['share_id']}"
    assert ada.request("DELETE", url).status_code == 204
    assert web.get(path_of(first["url"])).status_code == 404
    assert web.get(path_of(second["url"])).status_code == 200
    later = clock.now() + timedelta(days=1, seconds=1)
    monkeypatch.setattr("app.shares.pages.now", lambda: later)
    assert web.get(path_of(second["url"])).status_code == 404
    assert ada.request("DELETE", url).status_code == 404, "it is revoked"


def test_a_job_that_only_the_archive_has_is_shared_like_any_other(
    web: Within, ada: Within, container: Container
) -> None:
    job = finished_job(container, "ada", "yolo", files={"out.nef": b"the nef"})
    before = path_of(ada.post(f"/jobs/{job.job_id}/shares", json={}).json()["url"])
    container.archive.descriptions.write(job)
    container.store.delete(job.job_id)
    made = ada.post(f"/jobs/{job.job_id}/shares", json={"label": "later"})
    assert made.status_code == 201, made.text
    for page in (before, path_of(made.json()["url"])):
        assert "yolo" in web.get(page).text
        assert web.get(page.replace("/ui/shared/", "/shared/").replace("?", "/files/out.nef?")).content == b"the nef"
    place = f"/ui/jobs/{job.job_id}/shares"
    assert f'href="{place}"' in ada.get(f"/ui/archive/{job.job_id}").text
    assert f'href="/ui/archive/{job.job_id}"' in ada.get(place).text
    assert ada.request("DELETE", f"/jobs/{job.job_id}/shares/{made.json()['share_id']}").status_code == 204
    assert web.get(path_of(made.json()["url"])).status_code == 404
    container.archive.delete(job.job_id, "ada")
    assert web.get(before).status_code == 404
    assert ada.post(f"/jobs/{job.job_id}/shares", json={}).status_code == 404


def test_a_link_is_not_called_invalid_because_the_store_is_away(
    web: Within, ada: Within, container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = finished_job(container, "ada")
    page = path_of(ada.post(f"/jobs/{job.job_id}/shares", json={}).json()["url"])

    def away(job_id: str) -> None:
        raise StoreUnavailable("the store does not answer")

    monkeypatch.setattr(container.store, "get", away)
    answer = web.get(page)
    assert answer.status_code == 503 and "leads nowhere" not in answer.text


def test_another_key_opens_nothing(web: Within, ada: Within, container: Container) -> None:
    job = finished_job(container, "ada")
    url = path_of(ada.post(f"/jobs/{job.job_id}/shares", json={}).json()["url"])
    assert web.get(url[:-1] + ("A" if url[-1] != "A" else "B")).status_code == 404
    assert web.get(url.partition("?")[0]).status_code == 404


def test_the_database_does_not_hold_the_key(ada: Within, container: Container) -> None:
    job = finished_job(container, "ada")
    key = ada.post(f"/jobs/{job.job_id}/shares", json={}).json()["url"].rpartition("=")[2]
    with container.database.read() as conn:
        (row,) = conn.execute(sa.select(shares)).all()
    assert key not in str(row)


def test_a_disabled_users_links_open_nothing(web: Within, ada: Within, container: Container) -> None:
    job = finished_job(container, "ada", files={"out.nef": b"the nef"})
    page = path_of(ada.post(f"/jobs/{job.job_id}/shares", json={}).json()["url"])
    container.accounts.users.change("ada", is_enabled=False, by="test")
    assert web.get(page).status_code == 404
    assert web.get(page.replace("/ui/shared/", "/shared/").replace("?", "/files/out.nef?")).status_code == 404
    container.accounts.users.change("ada", is_enabled=True, by="test")
    assert web.get(page).status_code == 200


def test_links_that_ended_leave_room_for_new_ones(ada: Within, container: Container) -> None:
    job_id = finished_job(container, "ada", "yolo").job_id
    shares, moment = container.shares, clock.now()

    def add(label: str) -> str:
        return shares.add(job_id, "ada", days=1, label=label, now=moment)[0].share_id

    made = [add(str(at)) for at in range(MOST)]
    with pytest.raises(TooManyShares):
        add("one more")
    shares.revoke(job_id, "ada", made[7], now=moment)
    new = add("new")
    assert {share.share_id for share in shares.of_job(job_id, "ada")} == {*made, new} - {made[7]}
    with pytest.raises(TooManyShares):
        add("one more")
