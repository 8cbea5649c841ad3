"""What a client sends twice with one Idempotency-Key, because it did not hear the answer, is created once."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import httpx

from app.accounts.model import Role
from app.kit.web.idempotency import HEADER, REPLAYED
from app.settings import Settings
from tests.harness.api import Api, pngs, small_model
from tests.harness.deployment import Deployment
from tests.harness.users import within

CREATING_LATER = {"/transfers", "/jobs/{job_id}/exports", "/notifications/targets/{target_id}/test"}
"""Answered by 202: what they create is not there yet."""
CREATING = {
    "/uploads",
    "/uploads/presign",
    "/uploads/resumable",
    "/jobs",
    "/archive/{job_id}/convert",
    "/api/v2/tasks",
    "/api/v2/tasks/{task_id}/convert",
    "/api/v2/tasks/{task_id}/again",
    "/api/v2/tasks/{task_id}/export",
    "/api/v2/tasks/{task_id}/models",
    "/api/v2/task-sweeps",
    "/api/v2/task-sweeps/{task_sweep_id}/again",
    "/neptune/link/{node}/certificate",
    "/api/v2/models",
    "/api/v2/models/decoder",
    "/api/v2/services",
    "/api/v2/video/jobs",
    "/api/v2/video/job-sets",
    "/api/v2/video/profile",
    "/neptune/nodes",
    "/neptune/nodes/{name}/cameras",
    "/api/v2/users",
    "/api/v2/me/tokens",
    "/api/v2/users/{name}/tokens",
    "/api/v2/me/sftp-password",
    "/api/v2/files/folders",
    "/api/v2/users/{name}/sftp-reset",
    "/notifications/targets",
    "/jobs/{job_id}/shares",
    "/api/v2/services/{namespace}/{name}/sinks",
    "/api/v2/services/{namespace}/{name}/calibrations",
    "/api/v2/video/jobs/{job_uid}/sinks",
    "/sweeps",
    "/device-results/{job_id}",
    *CREATING_LATER,
}
REQUIREMENTS = {"/user/submit_job", "/node/submit_job"}
"""Paths of the requirement's, which answers 200 to whatever is good, and 400 to a wrong field."""


def key() -> dict[str, str]:
    return {HEADER: str(uuid4())}


def test_every_post_that_creates_says_that_it_heeds_the_key(service: Deployment) -> None:
    paths = httpx.get(f"{service.url}/openapi.json", trust_env=False).json()["paths"]
    heeding = {
        path
        for path, operations in paths.items()
        for parameter in operations.get("post", {}).get("parameters", ())
        if parameter["name"] == HEADER
        and {"409", "400" if path in REQUIREMENTS else "422"} <= set(operations["post"]["responses"])
    }
    creating = {path for path, of in paths.items() if "201" in of.get("post", {}).get("responses", ())}
    assert heeding - REQUIREMENTS == CREATING == creating | CREATING_LATER
    assert heeding >= REQUIREMENTS


def test_a_model_and_a_job_sent_twice_are_one_upload_and_one_job(api: Api) -> None:
    once, before = key(), set(api.job_ids())
    uploads = [api.http.post("/uploads", files=files(), headers=once) for _ in range(2)]
    assert uploads[0].status_code == 201
    assert uploads[0].json() == uploads[1].json()
    body = {name: uploads[0].json()[name] for name in ("model_key", "quant_key")}
    jobs = [api.http.post("/jobs", json=body, headers=once) for _ in range(2)]
    assert [job.status_code for job in jobs] == [201, 201]
    assert jobs[0].json() == jobs[1].json()
    assert jobs[0].headers["location"] == jobs[1].headers["location"]
    assert jobs[1].headers[REPLAYED] == "true"
    assert set(api.job_ids()) - before == {jobs[0].json()["job_id"]}
    other = api.http.post("/jobs", json={**body, "name": "another"}, headers=once)
    assert (other.status_code, other.json()["error"]["code"]) == (409, "IDEMPOTENCY_KEY_REUSED")


def files() -> list[tuple[str, tuple[str, bytes]]]:
    return [("model", ("model.onnx", small_model())), *(("images", file) for file in pngs(2))]


def test_of_many_twins_at_once_comes_one_job(api: Api) -> None:
    once, before, stored = key(), set(api.job_ids()), api.upload(small_model(), pngs(2))
    body = {name: stored[name] for name in ("model_key", "quant_key")}
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: api.http.post("/jobs", json=body, headers=once), range(6)))
    made = [answer for answer in answers if answer.status_code == 201]
    told = {answer.json()["error"]["code"] for answer in answers if answer.status_code != 201}
    assert told <= {"IDEMPOTENCY_KEY_IN_USE"}
    assert {answer.json()["job_id"] for answer in made} == set(api.job_ids()) - before
    assert api.http.post("/jobs", json=body, headers=once).json() == made[0].json()


CREATED = {
    "/api/v2/me/tokens": {"label": "mine", "scopes": ["read"]},
    "/api/v2/users": {"name": "alice", "role": Role.USER.value},
    "/api/v2/users/local/tokens": {"label": "theirs", "scopes": ["read"]},
    "/neptune/nodes": {"name": "edge0", "side": "edge"},
    "/api/v2/files/folders": {"path": "datasets/new"},
    "/uploads/presign": {"model": True, "images": True},
}


def test_what_lives_in_the_database_or_on_the_disk_is_created_once_too(settings: Settings) -> None:
    with within(settings) as web:
        for path, body in CREATED.items():
            first, again = (web.post(path, json=body, headers=KEY) for _ in range(2))
            assert first.status_code == 201, first.text
            assert (again.status_code, again.json()) == (201, first.json()), path
            other = web.post(path, json={**body, "and": "more"}, headers=KEY)
            assert (other.status_code, other.json()["error"]["code"]) == (409, "IDEMPOTENCY_KEY_REUSED"), path


KEY = {HEADER: "once"}


# --- forms ---
FORMS = {
    "/ui/jobs/new": ["/ui/jobs/new/sample", "/ui/jobs/new"],
    "/ui/video/new": ["/ui/video/new"],
    "/ui/services/new": ["/ui/services/new"],
    "/ui/models/new": ["/ui/models/new"],
    "/ui/nodes/new": ["/ui/nodes/new"],
    "/ui/account": ["/ui/account/tokens"],
    "/ui/admin/users": ["/ui/admin/users"],
    "/ui/admin/users/local": ["/ui/admin/users/local/tokens"],
}
"""Page → actions of its forms that create."""


def one_time_actions(web: Any, page: str) -> list[str]:
    return re.findall(r'action="([^"]+[?]once=[0-9a-f]{32})"', web.get(page).text)


def test_forms_that_create_carry_a_one_time_key(settings: Settings) -> None:
    with within(settings) as web:
        for page, actions in FORMS.items():
            first, again = (one_time_actions(web, page) for _ in range(2))
            assert {action.partition("?")[0] for action in first} == set(actions), page
            assert not set(first) & set(again), page


def test_a_form_that_is_sent_twice_creates_once_and_shows_the_same_page(settings: Settings) -> None:
    with within(settings) as web:
        [action] = one_time_actions(web, "/ui/account")
        fields = {"label": "mine", "scope": "read", "days": ""}
        before = len(web.get("/api/v2/me/tokens").json()["tokens"])
        first, again = (web.post(action, data=fields, headers={"Origin": web.base}) for _ in range(2))
        assert first.status_code == 200 and "mm_" in first.text
        assert again.text == first.text
        assert len(web.get("/api/v2/me/tokens").json()["tokens"]) == before + 1


def test_the_sample_that_is_asked_for_twice_is_one_job(api: Api) -> None:
    action, ours = one_time_actions(api.http, "/ui/jobs/new")[0], {"Origin": str(api.http.base_url).rstrip("/")}
    first, again = (api.http.post(action, headers=ours, follow_redirects=False) for _ in range(2))
    assert (first.status_code, again.status_code) == (303, 303), first.text
    assert first.headers["location"] == again.headers["location"]
