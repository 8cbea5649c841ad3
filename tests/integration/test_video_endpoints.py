"""The endpoints of the requirement: paths, bodies and answers as it has them, and who may ask."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from app.kit.clock import now
from app.kit.web.idempotency import HEADER, REPLAYED
from app.video.compat import services
from app.video.model.job import JobState
from tests.harness import http_server
from tests.harness.video.records import ADDRESSES, AGENT_PORT, CLOUD, EDGE, dag
from tests.harness.video.web import VideoWeb, bearer
from tests.harness.video.web_fixtures import client, env, started
from tests.harness.web import served

__all__ = ["client", "env", "started"]
ADDRESS = f"{ADDRESSES[EDGE]}:{AGENT_PORT}"
NOBODYS = "GLOBAL_ID_999.SUB_ID_1"
# as the requirement has them, without its comments
SUBMIT_JOB = """
{
"node_addr": "192.168.56.102:7000",
"video_id": 1,
"dag": {
"generator": "SingleFrameGenerator",
"flow": ["SingleFrameGenerator", "face_detection", "face_alignment"],
"input": {
"face_detection": {
"image": "SingleFrameGenerator.image"
},
"face_alignment": {
"image": "SingleFrameGenerator.image",
"bbox": "face_detection.bbox",
"prob": "face_detection.prob"
},
"Render": {
"image": "face_alignment.image",
"count": "face_alignment.count_result"
}
}
}
}
"""
CONSTRAINT = """
{
"job_uid": "GLOBAL_ID_1.SUB_ID",
"user_constraint": {
"delay": 0.3,
"accuracy": 10
}
}
"""
NODE_SUBMIT_JOB = """
{
"unique_job_id": "GLOBAL_ID_1.SUB_ID_1",
"node_addr": "192.168.56.102:7000",
"video_id": 1,
"dag": {
"generator": "SingleFrameGenerator",
"flow": ["SingleFrameGenerator", "face_detection", "face_alignment"],
"input": {
"face_detection": {
"image": "SingleFrameGenerator.image"
},
"face_alignment": {
"image": "SingleFrameGenerator.image",
"bbox": "face_detection.bbox",
"prob": "face_detection.prob"
}
}
}
}
"""
PLAN = """
{
"job_uid": "GLOBAL_ID_1.SUB_ID",
"flow_mapping": {
"face_detection": {
"model_id": 0,
"node_ip": "192.168.56.102",
"node_role": "host"
},
"face_alignment": {
"model_id": 0,
"node_ip": "114.212.81.11",
"node_role": "cloud"
}
},
"video_conf": {
"encoder": "H264",
"fps": 24,
"nskip": 0,
"ntracking": 5,
"resolution": "360p"
}
}
"""
JPEG = b"\xff\xd8\xff\xe0 a picture \xff\xd9"


def body(**changed: Any) -> dict[str, Any]:
    return {"node_addr": ADDRESS, "video_id": 1, "dag": dag(), **changed}


def refused(answer: httpx.Response, status: int) -> str:
    """The sentence."""
    body = answer.json()
    assert (answer.status_code, body["status"]) == (status, 1), answer.text
    assert isinstance(body["error"], str) and body["code"]
    return str(body["error"])


# --- /user ------------------------------------------------------------------------------------------
def test_status_of_all_nodes_has_the_form_of_the_requirement(env: VideoWeb, client: httpx.Client) -> None:
    job = env.running()
    body = client.get("/user/get_all_status").json()
    assert body["status"] == 0
    assert list(body["data"]) == [ADDRESS]
    status = body["data"][ADDRESS]
    assert {key: video["type"] for key, video in status["video"].items()} == {"0": "traffic flow", "1": "people indoor"}
    assert (status["online"], status["job_uid_list"]) == (True, [job.uid])


def test_a_job_is_submitted_with_the_requirements_body(env: VideoWeb, client: httpx.Client) -> None:
    env.running()
    answer = client.post("/user/submit_job", json=body(user_constraint={"delay": 0.3, "accuracy": 0.9}))
    assert answer.status_code == 200, answer.text
    reply = answer.json()
    assert reply["status"] == 0 and reply["job_uid"].startswith("GLOBAL_ID_") and ".SUB_ID_" in reply["job_uid"]
    job = env.video.jobs.get(env.user, reply["job_uid"])
    assert (job.node, job.video_id, job.state, job.constraint.hi) == (EDGE, "1", JobState.UNSCHED, 0.3)
    again = client.post("/user/submit_job", json=body(video_id="1")).json()["job_uid"]
    assert again != reply["job_uid"]


NO_JOBS: tuple[tuple[dict[str, Any], int, str], ...] = (
    ({"node_addr": "10.0.0.1:1"}, 404, "10.0.0.1:1"),
    ({"video_id": 7}, 404, "7"),
    ({"video_id": True}, 400, "video_id"),
    ({"video_id": 1.5}, 400, "video_id"),
    ({"dag": []}, 400, "dag"),
    ({"dag": {**dag(), "generator": "Magic"}}, 400, "Magic"),
    ({"node_addr": 7}, 400, "node_addr"),
    ({"realtime": "perhaps"}, 400, "realtime"),
    ({"user_constraint": {"delay": "soon"}}, 400, "delay"),
    ({"user_constraint": 3}, 400, "user_constraint"),
    ({"policy": "unheard"}, 400, "unheard"),
    ({"restart_policy": "sometimes"}, 400, "restart_policy"),
)
"""What is other than in a job, the status and a word of the answer."""


def test_what_is_no_job_is_refused_and_nothing_is_stored(env: VideoWeb, client: httpx.Client) -> None:
    job = env.running()
    for changed, status, word in NO_JOBS:
        assert word in refused(client.post("/user/submit_job", json=body(**changed)), status), changed
        assert [stored.uid for stored in env.video.jobs.page(env.user)[0]] == [job.uid], changed


@pytest.mark.parametrize(
    "path",
    [
        "/user/submit_job",
        "/user/submit_job_user_constraint",
        "/node/submit_job",
        "/node/get_plan",
        "/node/update_plan",
        "/node/update_status",
        "/node/sync_job_result",
    ],
)
def test_what_is_no_json_object_is_refused(client: httpx.Client, path: str) -> None:
    for content in (b"{", b"[]", b'"x"', b"", b"\xff", b'{"node_addr": NaN}'):
        refused(client.post(path, content=content), 400)


def test_a_body_that_is_too_large_is_refused(client: httpx.Client) -> None:
    refused(client.post("/user/submit_job", content=b'{"a": "' + b"x" * (1 << 20) + b'"}'), 413)


def test_a_constraint_is_in_force(env: VideoWeb, client: httpx.Client) -> None:
    job = env.running()
    sent = {"job_uid": job.uid, "user_constraint": {"delay": [0.1, 0.5], "acc_level": 3}}
    assert client.post("/user/submit_job_user_constraint", json=sent).json()["status"] == 0
    assert env.video.jobs.get(env.user, job.uid).constraint.to_json() == sent["user_constraint"]
    for wrong in ({"delay": "x"}, {"delay": [1]}, {"acc_level": 6}, 7):
        refused(client.post("/user/submit_job_user_constraint", json={**sent, "user_constraint": wrong}), 400)
    refused(client.post("/user/submit_job_user_constraint", json={"job_uid": job.uid}), 400)
    refused(client.post("/user/submit_job_user_constraint", json={**sent, "job_uid": NOBODYS}), 404)


def test_results_have_the_form_of_the_requirement(env: VideoWeb, client: httpx.Client) -> None:
    job = env.running()
    body = client.get(f"/user/sync_job_result/{job.uid}").json()
    assert body["status"] == 0
    assert [one["n_loop"] for one in body["result"]["appended_result"]] == list(range(41, 51))
    latest = body["result"]["latest_result"]
    assert set(latest["plan"]["flow_mapping"]) == {"face_detection", "face_alignment"}
    assert latest["plan"]["flow_mapping"]["face_alignment"] == {
        "model_id": 0,
        "node_role": "cloud",
        "node_ip": ADDRESSES[CLOUD],
        "node": CLOUD,
    }
    assert latest["plan"]["video_conf"] == {
        "resolution": "480p",
        "fps": 24.0,
        "nskip": 1,
        "ntracking": 2,
        "encoder": "JPEG",
    }
    assert latest["plan_result"]["delay"] == {"face_detection": 0.12, "face_alignment": 0.09}


def test_of_a_job_without_a_plan_there_is_none(env: VideoWeb, client: httpx.Client) -> None:
    env.running()
    uid = client.post("/user/submit_job", json=body()).json()["job_uid"]
    latest = client.get(f"/user/sync_job_result/{uid}").json()["result"]["latest_result"]
    assert latest == {"plan": None, "plan_result": {"delay": {}}}


@pytest.mark.parametrize(("path", "number"), [("/user/submit_job", ""), ("/node/submit_job", "GLOBAL_ID_72.SUB_ID_1")])
def test_a_job_that_is_sent_twice_with_one_key_is_one_job(
    env: VideoWeb, client: httpx.Client, path: str, number: str
) -> None:
    running = env.running()
    once, sent = {HEADER: "once"}, body(unique_job_id=number)
    first, again = (client.post(path, json=sent, headers=once) for _ in range(2))
    assert first.status_code == 200, first.text
    assert (again.status_code, again.json(), again.headers[REPLAYED]) == (200, first.json(), "true")
    assert [job.uid for job in env.video.jobs.page(env.user)[0]] == [first.json()["job_uid"], running.uid]
    refused(client.post(path, json=body(unique_job_id=number, video_id=0), headers=once), 409)
    assert HEADER in refused(client.post(path, json=sent, headers={HEADER: "x" * 201}), 400)


# --- /node ------------------------------------------------------------------------------------------
def test_a_job_may_bring_its_own_number(env: VideoWeb, client: httpx.Client) -> None:
    env.running()
    sent = body(unique_job_id="GLOBAL_ID_71.SUB_ID_2")
    assert client.post("/node/submit_job", json=sent).json()["job_uid"] == "GLOBAL_ID_71.SUB_ID_2"
    refused(client.post("/node/submit_job", json=sent), 409)
    assert "unique_job_id" in refused(client.post("/node/submit_job", json=body()), 400)


def test_the_bodies_of_the_requirement_are_taken_as_they_stand(env: VideoWeb, client: httpx.Client) -> None:
    """Its nodes have these addresses here, too. The one of /node/submit_job has no Render. Of the plan
    alone the cloud's address is another: the requirement has the host's, with the role cloud."""
    env.running()
    submitted = client.post("/user/submit_job", content=SUBMIT_JOB)
    assert submitted.json()["status"] == 0, submitted.text
    constrained = CONSTRAINT.replace("GLOBAL_ID_1.SUB_ID", submitted.json()["job_uid"])
    answer = client.post("/user/submit_job_user_constraint", content=constrained)
    assert answer.json()["constraint"] == {"delay": 0.3, "accuracy": 10}, answer.text
    cut = NODE_SUBMIT_JOB.replace("GLOBAL_ID_1.", "GLOBAL_ID_900.")
    answer = client.post("/node/submit_job", content=cut)
    assert answer.json()["job_uid"] == "GLOBAL_ID_900.SUB_ID_1", answer.text
    shown = client.get("/api/v2/video/jobs/GLOBAL_ID_900.SUB_ID_1").json()["dag"]["input"]["Render"]
    assert shown == {"image": "face_alignment.image", "count": "face_alignment.count_result"}
    assert "Render" in refused(client.post("/user/submit_job", content=cut), 400), "there it is the user's to say"
    plan = PLAN.replace("GLOBAL_ID_1.SUB_ID", submitted.json()["job_uid"])
    answer = client.post("/node/update_plan", content=plan)
    assert answer.json()["status"] == 0, answer.text
    latest = client.get(f"/user/sync_job_result/{submitted.json()['job_uid']}").json()["result"]["latest_result"]
    body = json.loads(plan)
    assert latest["plan"]["video_conf"] == body["video_conf"]
    for stage, place in body["flow_mapping"].items():
        assert {key: latest["plan"]["flow_mapping"][stage][key] for key in place} == place


def test_nodes_that_share_an_address_are_told_apart_by_their_names(env: VideoWeb, client: httpx.Client) -> None:
    env.running()
    nodes = env.video.resources.nodes
    edge = nodes.get(EDGE)
    nodes.register("edge2", edge.side, now=now())
    nodes.report("edge2", replace(edge.report, workers=()), address=edge.address, version="1", now=now())
    data = client.get("/user/get_all_status").json()["data"]
    assert {key: one["node"] for key, one in data.items()} == {EDGE: EDGE, "edge2": "edge2"}
    assert client.post("/user/submit_job", json=body(node_addr=EDGE)).json()["status"] == 0


def test_what_was_measured_is_not_a_users_to_tell(env: VideoWeb, client: httpx.Client) -> None:
    """It is what everybody's jobs are planned by."""
    job = env.running()
    row = {
        "node": EDGE,
        "stage": "face_detection",
        "model_id": 0,
        "model": "",
        "resolution": "480p",
        "delay_s": 0.1,
        "bytes": 1,
        "quality": 1,
        "frames": 1,
    }
    report = {"job_uid": job.uid, "seq": 80, "results": [{"n_loop": 80}], "profile": [row]}
    before = client.get("/api/v2/video/profile").json()
    assert "profile" in refused(client.post("/node/sync_job_result", json=report), 400)
    assert client.get("/api/v2/video/profile").json() == before
    node = bearer(env.token(EDGE))
    for wrong in (
        {"stage": "x" * 65},
        {"node": "n" * 64},
        {"model": "m" * 65},
        {"delay_s": "nan"},
        {"bytes": 1e300},
        {"resolution": ""},
        {"at": "\0"},
    ):
        sent = {**report, "profile": [{**row, **wrong}]}
        refused(client.post("/node/sync_job_result", json=sent, headers=node), 400)
    assert client.post("/node/sync_job_result", json=report, headers=node).json()["status"] == 0
    assert len(client.get("/api/v2/video/profile").json()["measurements"]) == len(before["measurements"]) + 1


def test_a_runner_asks_for_a_plan_with_its_nodes_token(
    env: VideoWeb, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, requests = env.running(), list[tuple[str, str]]()
    for part, name in ((env.video.planning, "send"), (env.video.jobs, "request_plan")):
        monkeypatch.setattr(part, name, lambda uid, why: requests.append((uid, why)))
    demand = {
        "job_uid": job.uid,
        "dag": dag(),
        "last_plan_result": {"delay": {"face_detection": 0.1}},
        "user_constraint": None,
        "asked": 3,
        "why": "late",
    }
    answer = client.post("/node/get_plan", json=demand, headers=bearer(env.token(EDGE)))
    assert answer.json()["status"] == 0, answer.text
    assert requests == [(job.uid, "late")]
    refused(client.post("/node/get_plan", json=demand, headers=bearer(env.token(CLOUD))), 404)
    refused(client.post("/node/get_plan", json={**demand, "asked": "often"}), 400)


def test_results_are_taken_from_the_node_that_runs_the_job_alone(env: VideoWeb, client: httpx.Client) -> None:
    job = env.running()
    report = {
        "job_uid": job.uid,
        "seq": 51,
        "results": [{"n_loop": 51, "up": 2, "total": 4}],
        "plan_result": {"delay": {"face_detection": 0.2}},
    }
    refused(client.post("/node/sync_job_result", json=report, headers=bearer(env.token(CLOUD))), 404)
    for _ in range(2):
        answer = client.post("/node/sync_job_result", json=report, headers=bearer(env.token(EDGE)))
        assert answer.json()["status"] == 0, answer.text
    results = client.get(f"/user/sync_job_result/{job.uid}").json()["result"]["appended_result"]
    assert [one["n_loop"] for one in results] == list(range(42, 52))
    for wrong in ({"seq": -1}, {"seq": "x"}, {"results": {}}, {"progress": 7}):
        refused(client.post("/node/sync_job_result", json={**report, **wrong}), 400)


def test_a_plan_is_given_by_its_user_and_by_no_node(env: VideoWeb, client: httpx.Client) -> None:
    job = env.running()
    conf = {"resolution": "360p", "fps": 12, "nskip": 0, "ntracking": 0, "encoder": "JPEG"}
    mapping = {
        name: {"model_id": 0, "node_role": "host", "node_ip": ADDRESSES[EDGE]}
        for name in ("face_detection", "face_alignment")
    }
    plan = {"job_uid": job.uid, "video_conf": conf, "flow_mapping": mapping}
    refused(client.post("/node/update_plan", json=plan, headers=bearer(env.token(EDGE))), 403)
    answer = client.post("/node/update_plan", json=plan)
    assert answer.json()["status"] == 0, answer.text
    given = env.video.jobs.get(env.user, job.uid).plan
    assert given is not None and (given.video_conf.resolution, given.seq > 2) == ("360p", True)
    refused(client.post("/node/update_plan", json={**plan, "flow_mapping": {}}), 400)
    refused(client.post("/node/update_plan", json={**plan, "video_conf": {"resolution": "8k"}}), 400)


def test_the_origins_join_is_answered_to_nodes_that_are_known(env: VideoWeb, client: httpx.Client) -> None:
    env.running()
    status = {"node_port": AGENT_PORT, "video_id": 0, "video_type": "traffic flow"}
    answer = client.post("/node/update_status", json=status, headers=bearer(env.token(EDGE)))
    assert answer.json() == {"status": 0, "node_addr": ADDRESS}
    answer = client.post("/node/update_status", json=status)
    refused(answer, 404)
    assert "modelmill node" in answer.json()["hint"]
    refused(client.post("/node/update_status", json={**status, "video_id": 9}, headers=bearer(env.token(EDGE))), 404)
    refused(client.post("/node/update_status", json={"node_port": 0}), 400)


def test_a_snapshot_is_taken_from_the_jobs_node_alone(env: VideoWeb, client: httpx.Client) -> None:
    job = env.running()
    path = f"/node/video/{job.uid}/picture"
    refused(client.post(path, content=JPEG), 403)
    refused(client.post(path, content=JPEG, headers=bearer(env.token(CLOUD))), 404)
    refused(client.post(path, content=b"GIF89a", headers=bearer(env.token(EDGE))), 400)
    refused(client.post(path, content=JPEG + b"x" * (2 << 20), headers=bearer(env.token(EDGE))), 413)
    assert client.post(path, content=JPEG, headers=bearer(env.token(EDGE))).json()["status"] == 0
    assert client.get(f"/api/v2/video/jobs/{job.uid}/picture").content == JPEG


def test_a_node_may_not_do_what_users_do(env: VideoWeb, client: httpx.Client) -> None:
    env.running()
    node = bearer(env.token(EDGE))
    for path in ("/user/get_all_status", "/get_service_list", "/api/v2/video/jobs"):
        assert client.get(path, headers=node).status_code == 401
    assert client.post("/service/face_detection", json={}, headers=node).status_code == 401
    refused(client.post("/node/submit_job", json=body(unique_job_id="GLOBAL_ID_5.SUB_ID_1"), headers=node), 403)


# --- /service ---------------------------------------------------------------------------------------
class Host:
    """A host of stages that says what it was sent."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, bytes]] = []
        self.app = Starlette(routes=[Route("/service/{name}", self.call, methods=["POST"])])

    async def call(self, request: Request) -> Response:
        sent = await request.body()
        self.calls.append((request.url.path, request.headers["authorization"], sent))
        if request.path_params["name"] == "face_alignment":
            return JSONResponse({"error": "no"}, status_code=400)
        return JSONResponse({"bbox": [[1, 2, 3, 4]], "prob": [0.9], "want": request.query_params.get("want")})


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    """In the place of cloud0's; the one of edge0 cannot be reached."""
    made, hosts = Host(), services.serving_nodes
    with served(made.app) as url:

        def moved(*arguments: Any) -> list[services.ServingNode]:
            places = {CLOUD: url, EDGE: "http://127.0.0.1:1"}
            return [_at(one, places[one.host.node]) for one in hosts(*arguments)]

        monkeypatch.setattr(services, "serving_nodes", moved)
        yield made


def _at(one: services.ServingNode, url: str) -> services.ServingNode:
    return replace(one, host=replace(one.host, url=url, secret="the host's secret"))


def test_a_stage_is_called_on_a_node_of_the_cloud(env: VideoWeb, client: httpx.Client, host: Host) -> None:
    env.running()
    sent = {"image": base64.b64encode(JPEG).decode()}
    for place in ("/service", "/execute_task"):
        host.calls.clear()
        answer = client.post(f"{place}/face_detection?want=bbox", json=sent)
        assert answer.json() == {"bbox": [[1, 2, 3, 4]], "prob": [0.9], "want": "bbox"}
        ((path, secret, body_),) = host.calls
        assert (path, secret) == ("/service/face_detection", "Bearer the host's secret")
        assert sent["image"].encode() in body_
        assert client.post(f"{place}/face_alignment", json=sent).status_code == 400


def test_each_url_of_a_stage_leads_to_its_own_node(env: VideoWeb, client: httpx.Client, host: Host) -> None:
    """The edge's cannot be reached: what was meant for it is run nowhere else."""
    env.running()
    urls = client.get("/get_execute_url/face_detection").json()
    assert client.post(urls[ADDRESSES[CLOUD]]["url"] + "&want=bbox", json={}).json()["want"] == "bbox"
    assert len(host.calls) == 1
    refused(client.post(urls[ADDRESSES[EDGE]]["url"], json={}), 503)
    assert "edge7" in refused(client.post("/service/face_detection?node=edge7", json={}), 404)
    assert len(host.calls) == 1


def test_whoever_refuses_does_so_in_the_requirements_form(env: VideoWeb, client: httpx.Client) -> None:
    wrong = bearer("mm_nothing")
    for method, path in (
        ("GET", "/user/get_all_status"),
        ("POST", "/service/face_detection"),
        ("GET", "/get_service_list"),
    ):
        refused(client.request(method, path, headers=wrong), 401)
    refused(client.get("/service/face_detection"), 405)
    assert "error" in client.get("/api/v2/video/jobs", headers=wrong).json()
    assert isinstance(client.get("/api/v2/video/jobs", headers=wrong).json()["error"], dict), (
        "elsewhere in the product's"
    )


def test_a_stage_that_nobody_serves_is_said_to_be_unregistered(env: VideoWeb, client: httpx.Client, host: Host) -> None:
    env.running()
    for path in ("/service/helmet", "/execute_task/helmet"):
        assert refused(client.post(path, json={}), 404) == "unregistered services"
    refused(client.get("/get_execute_url/helmet"), 404)
    assert host.calls == []


def test_a_call_that_is_too_large_is_refused(
    env: VideoWeb, client: httpx.Client, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    env.running()
    monkeypatch.setattr(services, "MAX_BODY_BYTES", 1000)
    refused(client.post("/service/face_detection", content=b"x" * 1001), 413)
    refused(client.post("/service/face_detection", content=iter([b"x" * 600, b"x" * 600])), 413)
    assert client.post("/service/face_detection", content=b"x" * 1000).status_code == 200


def test_an_answer_that_is_too_large_is_not_passed_on(
    env: VideoWeb, client: httpx.Client, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    env.running()
    answer = client.post("/service/face_detection", json={})
    assert "sandbox" in answer.headers["content-security-policy"], "a node's answer is no page of ours"
    monkeypatch.setattr(services, "MAX_ANSWER_BYTES", len(answer.content))
    assert client.post("/service/face_detection", json={}).status_code == 200
    monkeypatch.setattr(services, "MAX_ANSWER_BYTES", len(answer.content) - 1)
    assert "more than" in refused(client.post("/service/face_detection", json={}), 503)


def test_without_a_host_that_can_be_reached_a_call_is_to_be_tried_again(
    env: VideoWeb, client: httpx.Client, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    env.running()
    serving, nowhere = services.serving_nodes, "http://127.0.0.1:1"
    monkeypatch.setattr(services, "serving_nodes", lambda *given: [_at(one, nowhere) for one in serving(*given)])
    answer = client.post("/service/face_detection", json={})
    refused(answer, 503)
    assert "retry-after" in answer.headers


def test_what_is_served_where_is_told_as_the_origin_does(env: VideoWeb, client: httpx.Client) -> None:
    env.running()
    assert client.get("/get_service_list").json() == ["face_alignment", "face_detection"]
    urls = client.get("/get_execute_url/face_detection").json()
    assert {key: entry["node_role"] for key, entry in urls.items()} == {
        ADDRESSES[CLOUD]: "cloud",
        ADDRESSES[EDGE]: "edge",
    }
    assert urls[ADDRESSES[CLOUD]]["url"] == f"{env.url}/execute_task/face_detection?node={CLOUD}"
    resources = client.get("/get_resource_info").json()
    assert resources[ADDRESSES[EDGE]]["face_alignment"] == {"n_process": 2, "cpu_ratio": 0.3, "mem_ratio": 0.2}
    cluster = client.get("/get_cluster_info").json()[ADDRESSES[CLOUD]]
    assert (cluster["node_role"], cluster["n_cpu"], cluster["cpu_ratio"], cluster["mem"]) == ("cloud", 4, 0.35, 8192)


def test_a_call_whose_host_breaks_off_is_run_on_no_other(
    env: VideoWeb, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    env.running()
    serving, calls = services.serving_nodes, list[bytes]()

    def break_off(handler: BaseHTTPRequestHandler, body: bytes) -> None:
        calls.append(body)
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{")

    with http_server.served(break_off) as url:
        monkeypatch.setattr(services, "serving_nodes", lambda *given: [_at(one, url) for one in serving(*given)])
        assert "broke off" in refused(client.post("/service/face_detection", content=b"once"), 503)
    assert calls == [b"once"]
