"""The endpoints of video under /api/v2: jobs, stages, plans, what would be, and the streams of changes."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from app.accounts.model import Role
from app.kit.clock import now
from app.video.model.job import Mode
from tests.harness.api import events, small_model
from tests.harness.video.records import ADDRESSES, CLOUD, EDGE, dag
from tests.harness.video.web import VideoWeb, bearer
from tests.harness.video.web_fixtures import client, env, started

__all__ = ["client", "env", "started"]
VIDEO = "/api/v2/video"
JOBS = f"{VIDEO}/jobs"
NOBODYS = "GLOBAL_ID_999.SUB_ID_1"


@pytest.fixture
def plain(env: VideoWeb) -> dict[str, str]:
    """Headers of a user who is no administrator."""
    env.container.accounts.users.create("plain", Role.USER, by="test")
    return bearer(env.container.accounts.tokens.issue("plain", by="test")[1])


def refused(answer: httpx.Response, status: int) -> str:
    """Its code."""
    assert answer.status_code == status, answer.text
    return str(answer.json()["error"]["code"])


# --- what there is ----------------------------------------------------------------------------------
def test_nodes_kinds_and_policies_are_told(env: VideoWeb, client: httpx.Client) -> None:
    env.running()
    (node,) = client.get(f"{VIDEO}/nodes").json()["nodes"]
    assert (node["node"], node["is_online"], sorted(node["videos"])) == (EDGE, True, ["0", "1"])
    kinds = client.get(f"{VIDEO}/kinds").json()
    kinds_by_name = {kind["name"]: kind for kind in kinds["kinds"]}
    assert kinds_by_name["face_detection"]["outputs"]["bbox"] == "boxes"
    assert kinds["generators"]["ClipGenerator"]["clip"] == "clip" and kinds["render"]["count"] == "counts"
    policies = client.get(f"{VIDEO}/policies").json()
    assert policies["default"] in policies["policies"] and len(policies["policies"]) >= 4


def test_stages_are_an_administrators_to_set(env: VideoWeb, client: httpx.Client, plain: dict[str, str]) -> None:
    env.container.models.add_upload(env.user, "small", [small_model()], now=now())
    body = {"kind": "face_detection", "models": ["small", ["small"]], "parameters": {}}
    assert refused(client.put(f"{VIDEO}/stages/faces", json=body, headers=plain), 403) == "FORBIDDEN"
    answer = client.put(f"{VIDEO}/stages/faces", json=body)
    assert answer.status_code == 200, answer.text
    (stage,) = client.get(f"{VIDEO}/stages", headers=plain).json()["stages"]
    assert (stage["name"], stage["models"], len(stage["variants"])) == ("faces", [["small"], ["small"]], 2)
    assert refused(client.put(f"{VIDEO}/stages/faces", json={**body, "models": ["none"]}), 400) == "BAD_STAGE"
    assert refused(client.put(f"{VIDEO}/stages/faces", json={**body, "kind": "unheard"}), 400) == "BAD_STAGE"
    refused(client.delete(f"{VIDEO}/stages/faces", headers=plain), 403)
    assert client.delete(f"{VIDEO}/stages/faces").status_code == 204
    assert refused(client.delete(f"{VIDEO}/stages/faces"), 404) == "STAGE_NOT_FOUND"


# --- jobs -------------------------------------------------------------------------------------------
def test_a_job_is_submitted_by_a_dag_or_by_its_stages(env: VideoWeb, client: httpx.Client) -> None:
    env.running()
    body: dict[str, Any] = {"node": EDGE, "video_id": 1}
    answer = client.post(JOBS, json={**body, "dag": dag(), "constraint": {"delay": 0.4}, "realtime": False})
    assert answer.status_code == 201, answer.text
    made = answer.json()
    assert answer.headers["location"] == f"{JOBS}/{made['uid']}"
    assert (made["state"], made["dag"], made["realtime"]) == ("UNSCHED", dag(), False)
    by_stages = client.post(JOBS, json={**body, "stages": ["face_detection", "face_alignment"]})
    assert by_stages.json()["dag"] == dag()
    assert refused(client.post(JOBS, json={**body, "stages": ["unheard"]}), 400) == "BAD_REQUEST"
    assert refused(client.post(JOBS, json={**body, "stages": ["face_alignment"]}), 400) == "BAD_DAG"
    refused(client.post(JOBS, json=body), 400)
    refused(client.post(JOBS, json={**body, "dag": dag(), "stages": ["face_detection"]}), 400)
    refused(client.post(JOBS, json={**body, "dag": dag(), "more": 1}), 422)
    assert refused(client.post(JOBS, json={**body, "node": "edge9", "dag": dag()}), 404) == "VIDEO_NOT_FOUND"


def test_jobs_are_listed_newest_first_page_by_page(env: VideoWeb, client: httpx.Client) -> None:
    made = [env.running().uid for _ in range(3)][::-1]
    first = client.get(JOBS, params={"limit": 2}).json()
    rest = client.get(JOBS, params={"limit": 2, "cursor": first["next_cursor"]}).json()
    assert [job["uid"] for job in first["jobs"] + rest["jobs"]] == made
    assert rest["next_cursor"] is None
    assert [job["uid"] for job in client.get(JOBS, params={"q": made[0]}).json()["jobs"]] == made[:1]
    assert client.get(JOBS, params={"state": "DONE"}).json()["jobs"] == []
    refused(client.get(JOBS, params={"state": "LOST"}), 422)
    assert (first["jobs"][0]["delay_s"], first["jobs"][0]["n_loop"]) == (0.23, 50)


def test_all_is_told_of_a_job(env: VideoWeb, client: httpx.Client) -> None:
    place = f"{JOBS}/{env.running().uid}"
    job = client.get(place).json()
    assert (job["plan"]["seq"], job["plan_result"]["fps"], job["constraint"]["delay"]) == (2, 5.8, 0.8)
    assert len(client.get(f"{place}/results").json()["results"]) == 10
    assert [event["type"] for event in client.get(f"{place}/events").json()["events"]][-1] == "Note"
    decisions = client.get(f"{place}/decisions", params={"limit": 2}).json()["decisions"]
    assert [(one["seq"], one["outcome"]) for one in decisions] == [(3, "late"), (2, "new")]
    assert client.get(f"{place}/series").json()["points"][0]["plan_result"]["e2e_p50"] == 0.2
    assert client.get(f"{place}/resources").json()["resources"][ADDRESSES[CLOUD]]["role"] == "cloud"
    assert refused(client.get(f"{place}/picture"), 503) == "NO_PICTURE"


def test_a_job_is_changed_cancelled_and_deleted(env: VideoWeb, client: httpx.Client) -> None:
    place = f"{JOBS}/{env.running().uid}"
    assert client.put(f"{place}/constraint", json={"delay": 0.2}).json()["constraint"]["delay"] == 0.2
    assert refused(client.put(f"{place}/constraint", json={"delay": "x"}), 400) == "BAD_CONSTRAINT"
    assert client.put(f"{place}/policy", json={"policy": "fixed"}).json()["policy"] == "fixed"
    assert refused(client.put(f"{place}/policy", json={"policy": "unheard"}), 400) == "UNKNOWN_POLICY"
    mapping = {
        name: {"model_id": 0, "node_role": "host", "node_ip": ADDRESSES[EDGE]}
        for name in ("face_detection", "face_alignment")
    }
    plan = {"video_conf": {"resolution": "240p", "fps": 5}, "flow_mapping": mapping}
    assert client.put(f"{place}/plan", json=plan).json()["plan"]["video_conf"]["resolution"] == "240p"
    assert refused(client.put(f"{place}/plan", json={**plan, "flow_mapping": {}}), 400) == "BAD_PLAN"
    assert refused(client.delete(place), 409) == "CONFLICT"
    for _ in range(2):
        ended = client.post(f"{place}/cancel").json()
        assert (ended["state"], ended["ending"]) == ("DONE", "cancelled")
    assert refused(client.put(f"{place}/constraint", json={"delay": 0.2}), 409) == "VIDEO_JOB_ENDED"
    assert client.delete(place).status_code == 204
    assert refused(client.get(place), 404) == "VIDEO_JOB_NOT_FOUND"


# --- what would be, and what was measured -----------------------------------------------------------
def test_it_is_predicted_what_a_cut_would_take(env: VideoWeb, client: httpx.Client) -> None:
    job = env.running()
    predictions = client.post(f"{VIDEO}/what-if", json={"job_uid": job.uid}).json()["predictions"]
    assert predictions == sorted(predictions, key=lambda one: one["delay_s"])
    assert {"delay_s", "bottleneck", "flow_mapping", "by_stage", "fps", "is_measured"} <= set(predictions[0])
    fast = {"job_uid": job.uid, "video_conf": {"fps": 60}}
    rates = [each["video_conf"]["fps"] for each in client.post(f"{VIDEO}/what-if", json=fast).json()["predictions"]]
    assert set(rates) == {24.0}, "the source gives no more"
    by_dag = client.post(f"{VIDEO}/what-if", json={"node": EDGE, "video_id": 1, "dag": dag()})
    assert by_dag.status_code == 200 and by_dag.json()["predictions"], by_dag.text
    refused(client.post(f"{VIDEO}/what-if", json={}), 400)
    refused(client.post(f"{VIDEO}/what-if", json={"job_uid": NOBODYS}), 404)


def test_stages_are_profiled_by_a_job_of_its_own(env: VideoWeb, client: httpx.Client) -> None:
    env.running()
    body = {"node": EDGE, "video_id": 1, "stages": ["face_detection", "face_alignment"]}
    made = client.post(f"{VIDEO}/profile", json=body)
    assert made.status_code == 201, made.text
    assert (made.json()["mode"], made.json()["progress"]) == (Mode.PROFILE, 0)
    measurements = client.get(f"{VIDEO}/profile", params={"node": CLOUD, "stage": "face_detection"}).json()[
        "measurements"
    ]
    assert {(one["node"], one["stage"]) for one in measurements} == {(CLOUD, "face_detection")}
    refused(client.post(f"{VIDEO}/profile", json={"node": EDGE, "video_id": 1}), 400)


# --- streams ----------------------------------------------------------------------------------------
def test_the_changes_of_a_job_are_told_until_it_ends(env: VideoWeb, client: httpx.Client) -> None:
    job = env.running()
    with client.stream("GET", f"{JOBS}/{job.uid}/changes") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        told = events(answer.iter_lines())
        event, shown = next(told)
        assert (event, shown["state"]) == ("status", "EXEC")
        env.video.jobs.cancel(env.user, job.uid, now=now())
        (event, shown), (last, _) = next(told), next(told)
        assert (event, shown["state"], last) == ("status", "DONE", "done")
        assert list(told) == []


def test_the_changes_of_the_list_are_told_of_ones_own_jobs(
    env: VideoWeb, client: httpx.Client, plain: dict[str, str]
) -> None:
    job = env.running()
    with client.stream("GET", f"{VIDEO}/changes") as answer:
        told = events(answer.iter_lines())
        assert [one["uid"] for one in next(told)[1]["jobs"]] == [job.uid]
        env.video.jobs.cancel(env.user, job.uid, now=now())
        assert next(told)[1]["jobs"][0]["state"] == "DONE"
    with client.stream("GET", f"{VIDEO}/changes", headers=plain) as answer:
        assert next(events(answer.iter_lines()))[1]["jobs"] == []
