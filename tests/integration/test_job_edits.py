"""What a user changes about jobs that there are: one of them, or many at once."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest

from app.accounts.model import Role
from app.bootstrap.container import Container
from app.conversion import object_keys
from app.conversion.model import Status
from app.kit.clock import now
from app.settings import Settings
from tests.harness.api import pngs, small_model
from tests.harness.conversion_jobs import finished_job
from tests.harness.users import OURS, Within, within

LOCAL = "local"
PAGE = {"Accept": "text/html", **OURS}


def test_name_tags_and_notes_are_changed_and_the_rest_stays(web: Within, web_container: Container) -> None:
    job = finished_job(web_container, LOCAL, "old")
    answer = web.request("PATCH", f"/jobs/{job.job_id}", json={"name": " new ", "tags": ["a", "b", "a "]})
    assert answer.status_code == 200, answer.text
    assert (answer.json()["name"], answer.json()["tags"], answer.json()["notes"]) == ("new", ["a", "b"], "")
    web.request("PATCH", f"/jobs/{job.job_id}", json={"notes": "第一版"})
    read = web.get(f"/jobs/{job.job_id}").json()
    assert (read["name"], read["notes"], read["status"]) == ("new", "第一版", "COMPLETED")


@pytest.mark.parametrize(
    "body", [{"name": "x" * 201}, {"tags": [""]}, {"tags": ["t"] * 21}, {"notes": "x" * 10_001}, {"status": "FAILED"}]
)
def test_what_is_no_change_is_refused_and_nothing_is_changed(
    web: Within, web_container: Container, body: dict[str, object]
) -> None:
    job = finished_job(web_container, LOCAL, "old")
    assert web.request("PATCH", f"/jobs/{job.job_id}", json=body).status_code == 422
    assert web.get(f"/jobs/{job.job_id}").json()["updated_at"] == job.updated_at


def test_what_is_kept_does_not_expire(web: Within, web_container: Container) -> None:
    kept, other = finished_job(web_container, LOCAL), finished_job(web_container, LOCAL)
    assert web.request("PATCH", f"/jobs/{kept.job_id}", json={"keep": True}).json()["keep"] is True
    later = now() + timedelta(days=400)
    web_container.conversion.expiry.sweep(later)
    assert web_container.store.get(other.job_id) is None
    assert web_container.store.get(kept.job_id) is not None
    assert web.request("PATCH", f"/jobs/{kept.job_id}", json={"keep": False}).json()["keep"] is False
    web_container.conversion.expiry.sweep(later)
    assert web_container.store.get(kept.job_id) is None


def test_many_are_tagged_and_deleted_and_each_that_cannot_be_says_why(web: Within, web_container: Container) -> None:
    ended = [finished_job(web_container, LOCAL, minute=minute) for minute in range(2)]
    running = finished_job(web_container, LOCAL, minute=3, status=Status.NEF)
    ids = [job.job_id for job in (*ended, running)]
    body = {"verb": "tag", "job_ids": ids, "add_tags": ["night"], "remove_tags": ["day"]}
    assert web.post("/jobs/bulk", json=body).json() == {"done": ids, "problems": []}
    assert {tuple(job["tags"]) for job in web.get("/jobs").json()["jobs"]} == {("night",)}
    answer = web.post("/jobs/bulk", json={"verb": "delete", "job_ids": [*ids, ids[0]]}).json()
    assert answer["done"] == ids[:2]
    assert [(problem["job_id"], problem["code"]) for problem in answer["problems"]] == [(ids[2], "JOB_ACTIVE")]
    answer = web.post("/jobs/bulk", json={"verb": "tag", "job_ids": ids[2:], "add_tags": [f"t{i}" for i in range(20)]})
    assert [problem["code"] for problem in answer.json()["problems"]] == ["BAD_INPUT"], "it has one already"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"verb": "tag", "job_ids": ["j"]}, "the verb tag needs add_tags or remove_tags"),
        ({"verb": "keep", "job_ids": []}, "job_ids: List should have at least 1 item after validation, not 0"),
    ],
)
def test_a_change_of_many_that_would_change_nothing_is_refused(web: Within, body: dict[str, Any], message: str) -> None:
    answer = web.post("/jobs/bulk", json=body)
    assert (answer.status_code, answer.json()["error"]["message"]) == (422, message)


def archived_job(container: Container, name: str = "faces") -> str:
    """A job that only the archive has: its record is forgotten."""
    job = finished_job(container, LOCAL, name)
    container.objects.put(object_keys.owned(LOCAL, job.job_id), [])
    container.conversion.jobs.descriptions.write(job)
    container.store.delete(job.job_id)
    container.store.note_archived(LOCAL, job.job_id)
    return job.job_id


def test_a_job_of_the_archive_is_changed_as_long_as_it_is_as_it_was_seen(web: Within, web_container: Container) -> None:
    path = f"/archive/{archived_job(web_container)}"
    seen = {"If-Match": web.get(path).headers["etag"]}
    changed = web.request("PATCH", path, json={"name": "new", "tags": ["a"], "notes": "n", "keep": True}, headers=seen)
    assert changed.status_code == 200, changed.text
    job = changed.json()["job"]
    assert (job["name"], job["tags"], job["notes"], job["keep"]) == ("new", ["a"], "n", True)
    assert changed.json()["is_kept"] is True and changed.headers["etag"] == web.get(path).headers["etag"]
    assert web.request("PATCH", path, json={"name": "late"}, headers=seen).status_code == 412
    assert web.request("DELETE", path, headers=seen).status_code == 412
    assert web.request("PATCH", path.replace("archive", "jobs"), json={"name": "late"}).status_code == 404
    (row,) = web.get("/archive").json()["jobs"]
    assert (row["name"], row["is_kept"]) == ("new", True)
    assert web.request("DELETE", path, headers={"If-Match": web.get(path).headers["etag"]}).status_code == 204


def test_many_are_changed_whether_or_not_only_the_archive_has_them(web: Within, web_container: Container) -> None:
    present, archived = finished_job(web_container, LOCAL).job_id, archived_job(web_container)
    ids = [present, archived]
    for change in ({"verb": "tag", "add_tags": ["x"]}, {"verb": "keep"}, {"verb": "unkeep"}):
        assert web.post("/jobs/bulk", json={**change, "job_ids": ids}).json() == {"done": ids, "problems": []}
    (row,) = web.get("/archive").json()["jobs"]
    assert (row["tags"], row["is_kept"]) == (["x"], False)
    assert web.post("/jobs/bulk", json={"verb": "delete", "job_ids": ids}).json()["done"] == ids
    assert web.get("/archive").json()["jobs"] == []


def test_ticked_jobs_of_the_archive_are_changed_on_its_page(web: Within, web_container: Container) -> None:
    job_id, view = archived_job(web_container), "/ui/archive?q=face"
    page = told(web, id=job_id, action="tag", tag="shelf", view=view)
    assert "1 job now has the tag shelf." in page and 'value="face"' in page, "the list as it was open"
    page = told(web, **undo(page))
    assert "Undone: 1 job is as it was." in page
    assert "1 job is kept for good." in told(web, id=job_id, action="keep", view=view)
    question = web.post("/ui/jobs/selected", data={"id": job_id, "action": "delete", "view": view}, headers=PAGE).text
    assert f'href="/ui/archive/{job_id}"' in question
    page = told(web, id=job_id, action="delete", confirmed="true", view=view)
    assert "1 job and its files were deleted." in page and job_id not in page


def test_name_tags_and_notes_are_changed_on_the_page_of_an_archived_job(web: Within, web_container: Container) -> None:
    page = f"/ui/archive/{archived_job(web_container)}"
    assert f'action="{page}/edit"' in web.get(page, headers=PAGE).text
    sent = {"name": "on the shelf", "tags": "a, b", "notes": "the last good one"}
    answer = web.post(f"{page}/edit", data=sent, headers=PAGE)
    assert (answer.status_code, answer.headers["location"]) == (303, f"{page}?note=edited")
    text = web.get(f"{page}?note=edited", headers=PAGE).text
    assert "Saved." in text and "the last good one" in text and "on the shelf" in text


def test_jobs_are_searched_by_the_name_of_the_file_of_their_model(web: Within, web_container: Container) -> None:
    files = [("model", ("face slim.onnx", small_model())), *(("images", file) for file in pngs(2))]
    keys = web.post("/uploads", files=files).json()
    body = {"model_key": keys["model_key"], "quant_key": keys["quant_key"], "name": "night"}
    first = web.post("/jobs", json=body).json()
    assert first["intake"]["model_name"] == "face slim.onnx"
    web.post(f"/jobs/{first['job_id']}/cancel")
    again = web_container.conversion.submissions.submit(
        web_container.conversion.submissions.remembered(first["job_id"], LOCAL)
    )
    for query, count in (("model:slim", 2), ("model:night", 0), ("name:slim", 0), ("slim night", 2)):
        page = web.get("/ui/jobs", params={"q": query}, headers=PAGE).text
        assert page.count("data-row-link") == count, query
    assert again.intake["model_name"] == "face slim.onnx"


def told(web: Within, **fields: Any) -> str:
    """The list of jobs as it is after something was done to ticked ones."""
    answer = web.post("/ui/jobs/selected", data=fields, headers=PAGE)
    assert answer.status_code == 303, answer.text
    return web.get(answer.headers["location"], headers=PAGE).text


def undo(page: str) -> dict[str, Any]:
    """What the button sends that takes it back."""
    form = page.partition('class="spacer" method="post"')[2].partition("</form>")[0]
    pairs = re.findall(r'name="(\w+)" value="([^"]*)"', form)
    return {"id": [value for name, value in pairs if name == "id"]} | dict(pair for pair in pairs if pair[0] != "id")


def test_a_tag_on_ticked_jobs_is_taken_back_from_those_alone_that_got_it(web: Within, web_container: Container) -> None:
    has_it, other = finished_job(web_container, LOCAL, "one"), finished_job(web_container, LOCAL, "two", minute=1)
    web_container.conversion.edits.change(has_it.job_id, LOCAL, tags=("night", "first"))
    ids = [has_it.job_id, other.job_id]
    page = told(web, id=ids, action="tag", tag=" night ", view="/ui/jobs?q=status%3Aended")
    assert "1 job now has the tag night." in page and 'value="status:ended"' in page, "the list as it was open"
    assert web_container.store.require(other.job_id).tags == ("night",)
    assert undo(page)["id"] == [other.job_id]
    page = told(web, **undo(page))
    assert "Undone: 1 job is as it was." in page and "is_undo" not in page
    assert [web_container.store.require(i).tags for i in ids] == [("night", "first"), ()]


WORDS = {"keep": "1 job is kept for good.", "untag": "The tag a was removed from 1 job."}


@pytest.mark.parametrize(("action", "words"), WORDS.items())
def test_what_is_kept_and_untagged_is_taken_back(
    web: Within, web_container: Container, action: str, words: str
) -> None:
    job = finished_job(web_container, LOCAL)
    web_container.conversion.edits.change(job.job_id, LOCAL, tags=("a",))
    page = told(web, id=job.job_id, action=action, tag="a")
    assert words in page
    changed = web_container.store.require(job.job_id)
    assert (changed.keep, changed.tags) == ((True, ("a",)) if action == "keep" else (False, ()))
    told(web, **undo(page))
    restored = web_container.store.require(job.job_id)
    assert (restored.keep, restored.tags) == (False, ("a",))


def test_a_selection_is_refused_without_a_tag_and_leads_to_no_other_site(web: Within, web_container: Container) -> None:
    job = finished_job(web_container, LOCAL)
    for wrong in ({"action": "tag", "tag": " "}, {"action": "keep", "view": "//elsewhere.invalid/ui/jobs"}):
        answer = web.post("/ui/jobs/selected", data={"id": job.job_id, **wrong}, headers=PAGE)
        assert answer.status_code == 422, wrong
    assert web_container.store.require(job.job_id).keep is False


def test_a_job_with_as_many_tags_as_there_may_be_is_told_of(web: Within, web_container: Container) -> None:
    full, other = finished_job(web_container, LOCAL), finished_job(web_container, LOCAL)
    web_container.conversion.edits.change(full.job_id, LOCAL, tags=tuple(f"t{number}" for number in range(20)))
    page = told(web, id=[full.job_id, other.job_id], action="tag", tag="one more")
    assert "1 job now has the tag one more." in page and "1 job could not be changed" in page


def test_where_there_are_accounts_the_first_tab_is_mine(settings: Settings) -> None:
    with within(settings.model_copy(update={"accounts": True})) as web:
        container = web.app.state.container
        container.accounts.users.create("alice", Role.USER, by="test")
        _, token = container.accounts.tokens.issue("alice", by="test")
        for owner in ("alice", "alice", "bob"):
            finished_job(container, owner)
        page = Within(web.app, Authorization=f"Bearer {token}").get("/ui/jobs", headers=PAGE).text
    tabs = re.sub(r"\s*<[^>]+>\s*", " ", page.partition('aria-label="Views"')[2].partition("</nav>")[0])
    assert tabs.split()[1:3] == ["Mine", "2"] and "All" not in tabs.split()
