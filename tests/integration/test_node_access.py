"""A node for some: to others it, its cameras and what runs there look like what does not exist, on every route; and
what of theirs runs there ends when they may no longer use it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from starlette.routing import Route
from typer.testing import CliRunner

from app.accounts.model import Role
from app.bootstrap.container import Container
from app.joint_inference.model.resource import PLURAL
from app.kit.access import AccessRule
from app.kit.clock import now
from app.main import create_app
from app.nodes.cli import commands
from app.nodes.grants import Grants
from app.nodes.model import Operation, Side
from app.settings import Settings
from app.video.cli import commands as video_commands
from app.video.model.job import JOBS, SERVICES, Ending, JobState
from tests.harness.joint.nodes import Env as Services
from tests.harness.joint.nodes import helmet
from tests.harness.users import OURS, Within
from tests.harness.variants import exhaustive
from tests.harness.video.records import ADDRESSES, AGENT_PORT, CLOUD, EDGE, VIDEOS, dag, running_video
from tests.harness.web import served

K8S_NODE = "/neptune/nodes"
VIDEO = "/api/v2/video"
BERLIN = {"site": "berlin"}
UNKNOWN, UNKNOWN_ADDRESS = "edge9", "192.168.56.109"
STREAMS = re.compile(r"/(changes|events|node-events)$|^/metrics$|/link/")
SIGNS = (*ADDRESSES.values(), *(video["name"] for video in VIDEOS.values()))
"""What no answer may have that is for somebody who may not use these nodes."""


@dataclass(frozen=True)
class House:
    """alice has a video job that runs on edge0 with a part on cloud0. boss is an administrator, mallory is not."""

    container: Container
    job_uid: str
    alice: Within
    mallory: Within
    boss: Within
    tokens: dict[str, str]

    def restrict(self, access: dict[str, Any], *nodes: str) -> None:
        for node in nodes or (EDGE, CLOUD):
            answer = self.boss.request("PUT", f"{K8S_NODE}/{node}/access", json=access)
            assert answer.status_code == 200, answer.text

    def job(self) -> Any:
        return self.container.video.jobs.get("alice", self.job_uid)

    def reconcile(self) -> None:
        for uid in ("", self.job_uid):
            self.container.video.controller.reconcile(uid, now=now())

    def orders(self, kind: str, uid: str) -> list[tuple[str, str]]:
        with self.container.database.read() as conn:
            orders_found = self.container.nodes.orders_of(conn, kind, uid)
        return [(order.node, order.key.part) for order in orders_found if order.operation is not Operation.DELETE]


@pytest.fixture
def house(settings: Settings) -> Iterator[House]:
    app = create_app(settings.model_copy(update={"accounts": True}))
    container: Container = app.state.container
    container.prepare()
    people, tokens = {}, {}
    for name, role in (("alice", Role.USER), ("mallory", Role.USER), ("boss", Role.ADMIN)):
        container.accounts.users.create(name, role, by="test")
        tokens[name] = container.accounts.tokens.issue(name, by="test")[1]
        people[name] = Within(app, Authorization=f"Bearer {tokens[name]}", **OURS)
    job = running_video(container.video, "alice", now=now())
    made = House(container, job.uid, tokens=tokens, **people)
    made.reconcile()
    yield made
    container.close()


def named(answer: httpx.Response, *names: str) -> tuple[int, str]:
    """What it says, whichever of these names it was asked for."""
    text = answer.text
    for name in names:
        text = text.replace(name, "NAME")
    return answer.status_code, re.sub(r'nonce="[^"]*"|[?]once=[0-9a-f]{32}', "", text)


ASKING: list[tuple[str, str, dict[str, Any]]] = [
    ("GET", f"{K8S_NODE}/NODE", {}),
    ("GET", "/ui/nodes/NODE", {"headers": {"Accept": "text/html"}}),
    ("POST", f"{VIDEO}/jobs", {"json": {"node": "NODE", "video_id": 1, "dag": dag()}}),
    ("POST", f"{VIDEO}/jobs", {"json": {"node": f"ADDRESS:{AGENT_PORT}", "video_id": 1, "dag": dag()}}),
    ("POST", f"{VIDEO}/profile", {"json": {"node": "NODE", "video_id": 1, "stages": ["face_detection"]}}),
    ("POST", f"{VIDEO}/what-if", {"json": {"node": "NODE", "video_id": 1, "dag": dag()}}),
    ("GET", f"{VIDEO}/profile?node=NODE", {}),
    ("POST", "/user/submit_job", {"json": {"node_addr": f"ADDRESS:{AGENT_PORT}", "video_id": 1, "dag": dag()}}),
    ("POST", "/user/submit_job", {"json": {"node_addr": "NODE", "video_id": 1, "dag": dag()}}),
    (
        "POST",
        "/node/submit_job",
        {"json": {"node_addr": "NODE", "video_id": 1, "dag": dag(), "unique_job_id": "GLOBAL_ID_77.SUB_ID_1"}},
    ),
    ("POST", "/ui/video/new", {"data": {"way": "form", "video": "NODE/1", "stages": "face_detection"}}),
    ("POST", "/ui/video/what-if", {"data": {"video": "NODE/1", "dag": json.dumps(dag())}}),
    ("POST", "/ui/video/stages/measure", {"data": {"video": "NODE/1", "stage.face_detection": "on"}}),
    *(("GET", path, {}) for path in (f"{K8S_NODE}/NODE/access",)),
    ("PUT", f"{K8S_NODE}/NODE/labels", {"json": {"labels": {"site": "berlin"}}}),
    ("PUT", f"{K8S_NODE}/NODE/access", {"json": {"allowed": None}}),
    ("GET", f"{K8S_NODE}/NODE/cameras", {}),
    ("POST", f"{K8S_NODE}/NODE/cameras", {"json": {"type": "yard", "source": "/yard.mp4"}}),
    ("PATCH", f"{K8S_NODE}/NODE/cameras/1000", {"json": {"type": "yard"}}),
    ("DELETE", f"{K8S_NODE}/NODE/cameras/1000", {}),
    ("POST", "/ui/nodes/NODE/cameras", {"data": {"type": "yard", "source": "/yard.mp4"}}),
    ("POST", "/ui/nodes/NODE/cameras/1000", {"data": {"type": "yard"}}),
    ("POST", "/ui/nodes/NODE/cameras/1000/remove", {}),
    ("DELETE", f"{K8S_NODE}/NODE", {}),
]
"""Every route that can be given the name of a node."""


@pytest.mark.parametrize(
    "access", [{"allowed": ["alice"]}, {"allowed": []}, *exhaustive({"allowed": ["@lab", "@Lab".lower()]})]
)
def test_a_node_for_others_is_answered_like_one_that_there_is_not(house: House, access: dict[str, Any]) -> None:
    house.restrict(access)
    for method, path, options in ASKING:
        seen = []
        for node, address in ((EDGE, ADDRESSES[EDGE]), (UNKNOWN, UNKNOWN_ADDRESS)):
            sent = json.loads(json.dumps(options).replace("NODE", node).replace("ADDRESS", address))
            answer = house.mallory.request(method, path.replace("NODE", node), **sent)
            seen.append(named(answer, node, address))
        assert seen[0] == seen[1], (method, path)


def test_no_route_shows_it_to_those_who_may_not_use_it(house: House) -> None:
    paths = [
        route.path
        for route in house.mallory.app.routes
        if isinstance(route, Route)
        and "GET" in (route.methods or ())
        and "{" not in route.path
        and not STREAMS.search(route.path)
    ]
    of_nodes = {"/ui/nodes", K8S_NODE, f"{VIDEO}/nodes", "/user/get_all_status", "/get_cluster_info", "/ui/video/new"}
    assert of_nodes <= {*paths}
    before = [house.mallory.get(path).text for path in of_nodes]
    assert any(sign in text for text in before for sign in SIGNS), "signs that nobody sees"
    house.restrict({"allowed": ["alice"]})
    shown = {path: house.mallory.get(path).text for path in paths}
    assert [path for path, text in shown.items() if any(sign in text for sign in SIGNS)] == []
    assert house.mallory.get("/get_service_list").json() == []
    assert house.mallory.get("/get_execute_url/face_detection").status_code == 404
    assert house.mallory.post("/service/face_detection", content=b"x").status_code == 404
    for path in ("/ui/video/new", "/ui/services/new", "/ui/video/stages"):
        assert f'value="{EDGE}' not in shown[path], path
    assert [node["name"] for node in house.alice.get(K8S_NODE).json()["nodes"]] == [CLOUD, EDGE]


def test_a_camera_for_others_is_no_video_of_the_node(house: House) -> None:
    house.restrict({"videos": {"1": ["alice"]}}, EDGE)
    for path in (f"{VIDEO}/nodes", K8S_NODE, "/user/get_all_status", "/ui/nodes", "/ui/video/new"):
        text = house.mallory.get(path).text
        assert VIDEOS["0"]["name"] in text or path == "/user/get_all_status", path
        assert VIDEOS["1"]["name"] not in text, path
    body = {"node": EDGE, "dag": dag()}
    refused, unknown = (house.mallory.post(f"{VIDEO}/jobs", json={**body, "video_id": video}) for video in (1, 7))
    assert named(refused, "'1'") == named(unknown, "'7'") and refused.status_code == 404
    assert house.job().state is JobState.EXEC, "alice's goes on"


def test_a_group_lets_its_members_in_and_leaving_it_keeps_them_out(house: House) -> None:
    house.restrict({"allowed": ["@lab"]})
    assert house.mallory.get(K8S_NODE).json() == {"nodes": []}
    assert house.boss.request("PATCH", "/api/v2/users/mallory", json={"groups": ["lab"]}).json()["groups"] == ["lab"]
    assert len(house.mallory.get(K8S_NODE).json()["nodes"]) == 2
    assert house.boss.request("PATCH", "/api/v2/users/mallory", json={"groups": []}).status_code == 200
    assert house.mallory.get(f"{K8S_NODE}/{EDGE}").status_code == 404


@pytest.mark.parametrize(("access", "node"), [({"allowed": ["mallory"]}, EDGE), ({"videos": {"1": ["mallory"]}}, EDGE)])
def test_a_job_ends_when_its_user_may_no_longer_use_its_video(house: House, access: dict[str, Any], node: str) -> None:
    assert house.orders(JOBS, house.job_uid) == [(EDGE, "runner")]
    house.restrict(access, node)
    house.reconcile()
    job = house.job()
    assert (job.state, job.ending) == (JobState.DONE, Ending.CANCELLED)
    assert "may no longer use this video" in job.reason
    house.reconcile()
    assert house.orders(JOBS, house.job_uid) == []


def test_a_job_goes_on_without_a_host_that_is_no_longer_for_its_user(house: House) -> None:
    def hosts() -> list[str]:
        with house.container.database.read() as conn:
            (order,) = house.container.nodes.orders_of(conn, JOBS, house.job_uid)
        return [host["node"] for host in order.content["hosts"]]

    assert CLOUD in hosts()
    house.restrict({"allowed": ["mallory"]}, CLOUD)
    house.reconcile()
    assert house.job().state is JobState.UNSCHED, "its plan needs another"
    assert hosts() == [EDGE]
    assert CLOUD not in house.alice.get(f"{VIDEO}/jobs/{house.job_uid}/resources").text


def test_who_may_use_it_is_said_by_administrators_alone_and_noted(house: House) -> None:
    body = {"allowed": ["mallory"]}
    for who in (house.mallory, house.alice):
        assert who.request("PUT", f"{K8S_NODE}/{EDGE}/access", json=body).status_code == 403
        assert who.get(f"{K8S_NODE}/{EDGE}/access").status_code == 403
        assert who.post(f"/ui/nodes/{EDGE}/access", data={"allowed": "mallory"}).status_code == 403
    house.restrict({"allowed": ["alice"]}, EDGE)
    (entry,) = house.container.accounts.audit_log.entries(subject=f"node:{EDGE}")
    assert (entry.actor, entry.action, entry.detail["allowed"]) == ("boss", "node.access", ["alice"])
    assert house.boss.request("PUT", f"{K8S_NODE}/{EDGE}/access", json={"allowed": ["No Name"]}).status_code == 422
    assert house.boss.get(f"{K8S_NODE}/{EDGE}/access").json()["allowed"] == ["alice"]
    assert house.boss.request("PUT", f"{K8S_NODE}/{UNKNOWN}/access", json=body).status_code == 404


def test_the_page_of_a_node_says_who_may_use_it_and_takes_it(house: House) -> None:
    page = f"/ui/nodes/{EDGE}"
    assert "/access" not in house.mallory.get(page).text
    assert 'name="videos.1"' in house.boss.get(page).text
    sent = {"allowed": "*", "videos.0": "*", "videos.1": "alice, @lab"}
    assert house.boss.post(f"{page}/access", data=sent).status_code == 303
    grants = house.boss.get(f"{K8S_NODE}/{EDGE}/access").json()
    assert grants == {"allowed": None, "owners": [], "videos": {"1": ["@lab", "alice"]}, "sources": {}}
    assert 'value="@lab alice"' in house.boss.get(page).text
    wrong = house.boss.post(f"{page}/access", data={**sent, "allowed": "No!"})
    assert wrong.status_code == 422 and 'value="No!"' in wrong.text
    assert house.boss.get(f"{K8S_NODE}/{EDGE}/access").json() == grants


def test_the_command_says_who_may_use_it(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODELMILL_TOKEN", house.tokens["boss"])
    with served(house.boss.app) as url:

        def run(*arguments: str) -> str:
            ran = CliRunner().invoke(commands, ["allow", EDGE, *arguments, "--url", url])
            assert ran.exit_code == 0, ran.output
            return ran.stdout

        assert run() == "edge0: everybody\n"
        assert run("alice", "@lab") == "edge0: @lab alice\n"
        assert run("--video", "1", "alice") == "edge0: @lab alice\nedge0 video 1: alice\n"
        assert run("--administrators") == "edge0: administrators only\nedge0 video 1: alice\n"
        assert run("--video", "1", "--everybody") == "edge0: administrators only\n"
        assert run("--everybody") == "edge0: everybody\n"


def test_a_service_ends_when_its_user_may_no_longer_use_a_node_and_comes_back_when_they_may(
    container: Container,
) -> None:
    env = Services(container)
    service = container.joint.services.create("alice", helmet(), now=env.now)

    def orders() -> list[str]:
        with container.database.read() as conn:
            orders_found = container.nodes.orders_of(conn, PLURAL, service.uid)
        return [order.key.part for order in orders_found if order.operation is not Operation.DELETE]

    def said() -> dict[str, Any]:
        container.joint.controller.reconcile(service.uid, now=now())
        status = container.joint.services.get("alice", "default", "helmet").status
        return dict(status["conditions"][-1])

    said()
    assert orders() == ["cloud"]
    everybody = container.nodes.access.grants("solar-corona-cloud")
    container.nodes.access.permit("solar-corona-cloud", Grants(AccessRule(())), by="boss")
    barred = said()
    assert (barred["type"], barred["reason"]) == ("Failed", "NodeNotFound")
    assert "There is no node 'solar-corona-cloud'" in barred["message"]
    assert orders() == []
    container.nodes.access.permit("solar-corona-cloud", everybody, by="boss")
    assert said()["type"] != "Failed"
    assert orders() == ["cloud"]


def test_a_service_is_told_which_cameras_of_its_node_are_not_for_its_user(container: Container) -> None:
    env = Services(container)
    service = container.joint.services.create("alice", helmet(), now=env.now)

    def withheld() -> Any:
        with container.database.read() as conn:
            orders_found = container.nodes.orders_of(conn, PLURAL, service.uid)
        (edge,) = (order for order in orders_found if order.key.part == "edge")
        return edge.content.get("withheld")

    env.settle()
    assert withheld() is None
    cameras = {"0": AccessRule(("bob",)), "1": AccessRule(("alice",))}
    container.nodes.access.permit("edge0", Grants(videos=cameras, sources={"/data": AccessRule(())}), by="boss")
    env.settle()
    assert withheld() == {"videos": ["0"], "sources": ["/data"]}


def test_a_service_runs_on_those_nodes_of_its_labels_that_its_user_may_use(container: Container) -> None:
    services = Services(container)
    container.nodes.register("edge1", Side.EDGE, now=services.now)
    container.nodes.register("cloud1", Side.CLOUD, now=services.now)
    document = helmet()
    edge = document["spec"]["edgeWorker"]
    del edge["nodeName"]
    service = container.joint.services.create(
        "alice",
        {**document, "spec": {**document["spec"], "edgeWorker": {**edge, "nodeSelector": BERLIN}}},
        now=services.now,
    )

    def at_the_edge() -> list[str]:
        services.settle()
        with container.database.read() as conn:
            orders_now = container.nodes.orders_of(conn, PLURAL, service.uid)
        return sorted(o.node for o in orders_now if o.key.part == "edge" and o.operation is not Operation.DELETE)

    access = container.nodes.access
    assert at_the_edge() == []
    for node in ("edge0", "edge1", "cloud1"):
        access.label(node, BERLIN, by="boss")
    assert at_the_edge() == ["edge0", "edge1"], "a node in the cloud is none at the edge"
    access.permit("edge1", Grants(AccessRule(("bob",))), by="boss")
    assert at_the_edge() == ["edge0"]
    access.permit("edge1", Grants(AccessRule(("bob",)), owners=AccessRule(("alice",))), by="boss")
    assert at_the_edge() == ["edge0", "edge1"], "its owners may use it"
    access.label("edge0", {"site": "rome"}, by="boss")
    assert at_the_edge() == ["edge1"]
    container.joint.services.delete("alice", "default", "helmet", now=services.now)
    assert at_the_edge() == []


STAGE, NO_STAGE = "face_alignment", "face_elsewhere"
NAMING: list[tuple[str, str, dict[str, Any]]] = [
    ("POST", f"{VIDEO}/jobs", {"json": {"node": EDGE, "video_id": 1, "stages": ["face_detection", STAGE]}}),
    ("POST", f"{VIDEO}/jobs", {"json": {"node": EDGE, "video_id": 1, "dag": dag()}}),
    ("POST", f"{VIDEO}/profile", {"json": {"node": EDGE, "video_id": 1, "stages": ["face_detection", STAGE]}}),
    ("POST", f"{VIDEO}/what-if", {"json": {"node": EDGE, "video_id": 1, "dag": dag()}}),
    ("POST", "/user/submit_job", {"json": {"node_addr": EDGE, "video_id": 1, "dag": dag()}}),
    ("GET", f"{VIDEO}/profile?stage={STAGE}", {}),
    ("GET", f"/get_execute_url/{STAGE}", {}),
    ("POST", f"/service/{STAGE}", {"content": b"x"}),
    ("POST", f"/execute_task/{STAGE}", {"content": b"x"}),
    ("GET", f"{VIDEO}/stages/{STAGE}/access", {}),
    ("PUT", f"{VIDEO}/stages/{STAGE}", {"json": {"kind": "motion"}}),
    ("DELETE", f"{VIDEO}/stages/{STAGE}", {}),
    ("GET", f"/ui/video/stages/{STAGE}/remove", {}),
]
"""Every route that can be given the name of a stage."""


def test_a_stage_for_others_is_like_one_that_there_is_not(house: House) -> None:
    body = {"allowed": ["alice"]}
    place = f"{VIDEO}/stages/{STAGE}/access"
    assert house.mallory.request("PUT", place, json=body).status_code == 403
    assert house.boss.request("PUT", place, json=body).json() == body
    (entry,) = house.container.accounts.audit_log.entries(subject=f"stage:{STAGE}")
    assert (entry.actor, entry.action, entry.detail) == ("boss", "stage.access", body)
    for method, path, options in NAMING:
        seen = []
        for name in (STAGE, NO_STAGE):
            sent = options
            if "json" in options:
                sent = {"json": json.loads(json.dumps(options["json"]).replace(STAGE, name))}
            seen.append(named(house.mallory.request(method, path.replace(STAGE, name), **sent), name))
        assert seen[0] == seen[1], (method, path)
    for path in (f"{VIDEO}/stages", "/get_service_list", "/get_resource_info", "/ui/video/new", f"{VIDEO}/profile"):
        assert STAGE in house.alice.get(path).text, path
        assert STAGE not in house.mallory.get(path).text, path
    listed = house.mallory.get("/ui/video/stages").text
    assert f"<strong>{STAGE}</strong>" not in listed.split('id="kinds-title"')[0]
    assert house.alice.post(f"{VIDEO}/jobs", json=NAMING[1][2]["json"]).status_code == 201


def test_the_resources_of_a_job_name_no_stage_for_others(house: House) -> None:
    body = {"node": EDGE, "video_id": 1, "stages": ["face_detection"]}
    job = house.mallory.post(f"{VIDEO}/jobs", json=body).json()
    place = f"{VIDEO}/jobs/{job['uid']}/resources"
    assert STAGE in house.mallory.get(place).text
    for name in (STAGE, "face_detection"):
        house.boss.request("PUT", f"{VIDEO}/stages/{name}/access", json={"allowed": ["alice"]})
    shown = house.mallory.get(place).json()["resources"].values()
    assert [list(node["service"]) for node in shown] == [["face_detection"]] * 2, "what the job has it keeps"
    alice = house.alice.get(f"{VIDEO}/jobs/{house.job_uid}/resources").json()["resources"].values()
    assert [list(node["service"]) for node in alice] == [[STAGE, "face_detection"]] * 2


def test_a_stage_of_a_job_is_served_only_where_its_user_may_use_the_node(house: House) -> None:
    own = {
        "generator": "ClipGenerator",
        "flow": ["ClipGenerator", "still"],
        "input": {
            "still": {"clip": "ClipGenerator.clip"},
            "Render": {"image": "ClipGenerator.image", "count": "still.count_result"},
        },
        "stages": {"still": {"kind": "motion", "models": []}},
    }

    def serving() -> list[str]:
        house.reconcile()
        with house.container.database.read() as conn:
            orders = house.container.nodes.orders_of_kind(conn, SERVICES)
        return sorted(order.node for order in orders if key in order.content["stages"])

    answer = house.alice.post(f"{VIDEO}/jobs", json={"node": EDGE, "video_id": 1, "dag": own})
    assert answer.status_code == 201, answer.text
    key = f"{answer.json()['uid']}/still"
    assert serving() == [CLOUD, EDGE]
    house.restrict({"allowed": ["mallory"]}, CLOUD)
    assert serving() == [EDGE]
    house.restrict({"allowed": ["alice"]}, CLOUD)
    assert serving() == [CLOUD, EDGE]


def test_a_stage_that_is_replaced_stays_for_whom_it_was(house: House) -> None:
    house.boss.request("PUT", f"{VIDEO}/stages/{STAGE}/access", json={"allowed": ["@lab"]})
    motion = {"name": STAGE, "kind": "motion"}
    assert house.boss.request("PUT", f"{VIDEO}/stages/{STAGE}", json={"kind": "motion"}).status_code == 200
    assert house.boss.post("/ui/video/stages", data=motion).status_code == 303
    assert house.boss.get(f"{VIDEO}/stages/{STAGE}/access").json() == {"allowed": ["@lab"]}
    assert 'value="@lab"' in house.boss.get(f"/ui/video/stages?edit={STAGE}").text
    assert house.boss.post("/ui/video/stages", data={**motion, "allowed": "alice @lab"}).status_code == 303
    assert house.boss.get(f"{VIDEO}/stages/{STAGE}/access").json() == {"allowed": ["@lab", "alice"]}
    assert house.boss.post("/ui/video/stages", data={**motion, "allowed": "No!"}).status_code == 422


def test_the_command_says_who_may_use_a_stage(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODELMILL_TOKEN", house.tokens["boss"])
    with served(house.boss.app) as url:

        def run(*arguments: str) -> str:
            ran = CliRunner().invoke(video_commands, ["stages", "allow", STAGE, *arguments, "--url", url])
            assert ran.exit_code == 0, ran.output
            return ran.stdout

        assert run() == f"{STAGE}: everybody\n"
        assert run("alice", "@lab") == f"{STAGE}: @lab alice\n"
        assert run("--administrators") == run() == f"{STAGE}: administrators only\n"
        assert run("--everybody") == f"{STAGE}: everybody\n"


def test_the_owners_of_a_node_say_who_uses_it_and_label_it(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    access, labels, page = f"{K8S_NODE}/{EDGE}/access", f"{K8S_NODE}/{EDGE}/labels", f"/ui/nodes/{EDGE}"
    berlin = {"labels": {"site": "berlin"}}
    assert house.alice.request("PUT", labels, json=berlin).status_code == 403
    assert house.alice.post(f"{page}/labels", data={"labels": "site=berlin"}).status_code == 403
    assert 'name="labels"' not in house.alice.get(page).text
    owned = house.boss.request("PUT", access, json={"allowed": ["bob"], "owners": ["alice"]})
    assert owned.json()["owners"] == ["alice"]

    assert house.alice.request("PUT", labels, json=berlin).json() == berlin
    seen = house.alice.get(f"{K8S_NODE}?selector=site=berlin").json()["nodes"]
    assert [(node["name"], node["labels"]) for node in seen] == [(EDGE, berlin["labels"])]
    assert house.alice.get(f"{K8S_NODE}?selector=site=rome").json()["nodes"] == []
    assert house.alice.get(f"{K8S_NODE}?selector=site").status_code == 422
    assert house.alice.post(f"{page}/labels", data={"labels": "no label"}).status_code == 422
    assert house.alice.post(f"{page}/labels", data={"labels": "site=rome, floor=2"}).status_code == 303
    assert 'value="floor=2 site=rome"' in house.alice.get(page).text

    allowed = house.alice.request("PUT", access, json={"allowed": ["carol"], "owners": ["alice"]})
    assert (allowed.status_code, allowed.json()["allowed"]) == (200, ["carol"])
    others = house.alice.request("PUT", access, json={"allowed": None, "owners": ["alice", "carol"]})
    assert others.status_code == 403, "who owns it is not theirs to say"
    assert house.alice.post(f"{page}/access", data={"allowed": "*", "owners": "mallory"}).status_code == 303
    assert house.boss.get(access).json() == {"allowed": None, "owners": ["alice"], "videos": {}, "sources": {}}
    assert house.mallory.request("PUT", labels, json={"labels": {}}).status_code == 403
    assert house.alice.request("PUT", f"{K8S_NODE}/{CLOUD}/labels", json=berlin).status_code == 403
    assert house.alice.request("DELETE", f"{K8S_NODE}/{EDGE}").status_code == 403

    monkeypatch.setenv("MODELMILL_TOKEN", house.tokens["alice"])
    with served(house.alice.app) as url:

        def run(*arguments: str) -> str:
            ran = CliRunner().invoke(commands, [*arguments, "--url", url])
            assert ran.exit_code == 0, ran.output
            return ran.stdout

        assert run("label", EDGE) == "floor=2\nsite=rome\n"
        assert run("label", EDGE, "site=berlin", "floor-") == "site=berlin\n"
        assert run("list", "--selector", "site=berlin").split()[0] == EDGE
        assert run("allow", EDGE, "carol") == f"{EDGE}: carol\n{EDGE} owners: alice\n"
