"""The controller of video jobs against pretended nodes: what they are told, when that changes, and what it says of jobs
whose nodes are gone."""

from __future__ import annotations

from typing import Any

import pytest

from app.bootstrap.container import Container, assemble
from app.nodes.model import NodeReport, Operation, Side, WorkerReport, WorkerState, WorkKey
from app.nodes.wire import Heartbeat
from app.video import store
from app.video.metrics import VideoCollector
from app.video.model.job import JOBS, PART, SERVICES, SERVICES_PART, JobContent, JobState, ServicesContent
from app.video.service.resources import host_key
from tests.harness.api import vector_model
from tests.harness.video.nodes import USER, Scene, a_plan
from tests.harness.video.records import dag, plan_result, result

HOSTS = {name: WorkKey(SERVICES, name, SERVICES_PART) for name in ("edge0", "cloud0")}


@pytest.fixture
def scene(container: Container) -> Scene:
    return Scene(container)


def served(scene: Scene, node: str) -> ServicesContent | None:
    """What this node is told to serve."""
    orders = [order for order in scene.orders(SERVICES, node) if order.operation is not Operation.DELETE]
    assert all(order.node == node for order in orders)
    return ServicesContent.from_json(orders[0].content) if orders else None


def types(scene: Scene, uid: str) -> list[str]:
    return [event.type for event in scene.jobs.events(USER, uid)]


def seqs(scene: Scene, uid: str) -> list[int]:
    kinds = [(JOBS, uid), *((SERVICES, node) for node in HOSTS)]
    return [order.seq for kind, name in kinds for order in scene.orders(kind, name)]


# --- hosts of stages --------------------------------------------------------------------------------
def test_a_node_with_the_longest_name_serves_stages(scene: Scene) -> None:
    """The uid of an order is shorter: what a node says of it has to be taken, and found again."""
    name, nodes = "e" * 63, scene.container.nodes
    nodes.register(name, Side.CLOUD, now=scene.now)
    nodes.report(name, NodeReport(), address="10.0.0.9", version="1", now=scene.now)
    scene.controller.reconcile("", now=scene.now)
    key = host_key(name)
    (order,) = nodes.pending(name)
    assert order.key == key
    worker = WorkerReport(key, "video", name, f"services-{name}", 1, WorkerState.RUNNING, address="10.0.0.9:5500")
    heartbeat = Heartbeat("1", "10.0.0.9", NodeReport(workers=(worker,)), {str(key): order.seq})
    heard = Heartbeat.from_json(heartbeat.to_json())
    nodes.report(name, heard.report, address=heard.address, version="1", now=scene.now)
    assert name in [host.node for host in scene.container.video.resources.hosts("alice", "edge0", scene.now)]
    nodes.report(name, NodeReport(), address="10.0.0.9", version="1", now=scene.now)
    scene.controller.reconcile("", now=scene.now)
    assert [order.key for order in nodes.pending(name)] == [key], "it is told once"


def test_a_host_of_stages_is_called_at_host_and_port_and_nothing_else(scene: Scene) -> None:
    nodes, key = scene.container.nodes, host_key("cloud0")
    scene.controller.reconcile("", now=scene.now)
    good = ("10.0.0.9:5500", "node-7.lan:80", "[fd00::1]:80")
    bad = ("", "10.0.0.9", "10.0.0.9:80/latest?x=", "user@10.0.0.9:80", "10.0.0.9:80#", "a b:80", "10.0.0.9:80\n")
    for address in (*good, *bad, good[0]):
        worker = WorkerReport(key, "video", "cloud0", "services-cloud0", 1, WorkerState.RUNNING, address=address)
        nodes.report("cloud0", NodeReport(workers=(worker,)), address="10.0.0.9", version="1", now=scene.now)
        names = [host.node for host in scene.container.video.resources.hosts("alice", "edge0", scene.now)]
        assert ("cloud0" in names) == (address in good), address


def test_nodes_with_videos_and_of_the_cloud_serve_the_catalogue(scene: Scene) -> None:
    scene.controller.reconcile("", now=scene.now)
    edge, cloud = served(scene, "edge0"), served(scene, "cloud0")
    assert served(scene, "edge1") is None
    assert edge is not None and cloud is not None
    assert set(edge.stages) == set(cloud.stages) == {"face_detection", "face_alignment"}
    assert edge.processes == scene.container.settings.video_processes
    assert edge.secret and cloud.secret and edge.secret != cloud.secret
    assert edge.peers == ()
    scene.settle()
    after = served(scene, "edge0")
    assert after is not None
    (peer,) = after.peers
    assert (peer.node, peer.role, peer.url, peer.secret) == (
        "cloud0",
        "cloud",
        "http://114.212.81.11:5500",
        cloud.secret,
    )
    assert after.secret == edge.secret, "an order that changes keeps its secret"


def test_without_stages_nothing_is_served_and_with_the_first_again(scene: Scene) -> None:
    scene.settle()
    for name in ("face_detection", "face_alignment"):
        scene.video.catalogue.remove(name)
    scene.settle()
    assert served(scene, "edge0") is served(scene, "cloud0") is None
    assert scene.orders(SERVICES, "edge0") == []


def test_a_jobs_own_stages_are_served_under_its_name_until_it_ends(scene: Scene, container: Container) -> None:
    container.models.add_upload(USER, "mine", [vector_model()], now=scene.now)
    own: dict[str, Any] = {"face_detection": {"kind": "face_detection", "models": ["mine"]}}
    job = scene.submit(dag={**dag(), "stages": own})
    scene.settle()
    edge = served(scene, "edge0")
    assert edge is not None
    assert set(edge.stages) == {"face_detection", "face_alignment", f"{job.uid}/face_detection"}
    assert edge.stages[f"{job.uid}/face_detection"] == job.stages[0]
    info = scene.video.resources.info(job, scene.now)
    assert set(info["192.168.56.102"]["service"]) == {"face_detection", "face_alignment"}
    other = scene.video.resources.info(scene.submit(), scene.now)
    assert set(other["192.168.56.102"]["service"]) == {"face_detection", "face_alignment"}
    scene.jobs.cancel(USER, job.uid, now=scene.now)
    scene.settle()
    edge = served(scene, "edge0")
    assert edge is not None
    assert set(edge.stages) == {"face_detection", "face_alignment"}


# --- orders of jobs ---------------------------------------------------------------------------------
def test_the_node_of_the_video_is_told_all_that_a_runner_needs(scene: Scene) -> None:
    job = scene.running(constraint={"delay": 0.3})
    content = JobContent.from_json(scene.content(job.uid))
    assert (content.uid, content.video_id, content.secret) == (job.uid, "1", job.secret)
    assert content.dag.to_json() == dag()
    assert content.stages == job.stages
    assert content.plan == job.plan
    assert content.constraint.hi == 0.3
    assert [(host.node, host.role) for host in content.hosts] == [("edge0", "host"), ("cloud0", "cloud")]
    assert all(host.secret for host in content.hosts)


def test_looking_again_changes_nothing_and_writes_nothing(scene: Scene) -> None:
    job = scene.running()
    scene.settle()
    before, events = seqs(scene, job.uid), types(scene, job.uid)
    scene.sent.clear()
    for _ in range(3):
        scene.later(1)
        scene.settle()
    assert seqs(scene, job.uid) == before
    assert types(scene, job.uid) == events
    assert scene.sent == []


def test_what_ended_or_is_gone_is_withdrawn_and_looked_at_no_more(scene: Scene) -> None:
    job = scene.running()
    scene.jobs.cancel(USER, job.uid, now=scene.now)
    assert job.uid in scene.controller.due(scene.later(60)), "its node has not been told"
    scene.controller.reconcile(job.uid, now=scene.now)
    (order,) = scene.orders(JOBS, job.uid)
    assert order.operation is Operation.DELETE
    assert scene.controller.due(scene.later(60)) == [""]
    scene.controller.reconcile(job.uid, now=scene.now)
    scene.controller.reconcile("GLOBAL_ID_99.SUB_ID_1", now=scene.now)
    scene.report()
    assert scene.orders(JOBS, job.uid) == []


def test_all_are_due_every_ten_seconds(scene: Scene) -> None:
    jobs = [scene.submit().uid for _ in range(3)]
    assert scene.controller.due(scene.now) == ["", *jobs]
    assert scene.controller.due(scene.later(5)) == []
    assert scene.controller.due(scene.later(5)) == ["", *jobs]


# --- hosts that come and go -------------------------------------------------------------------------
def test_a_host_that_goes_leaves_the_job_unscheduled_until_there_is_another_plan(scene: Scene) -> None:
    job = scene.running()
    scene.settle()
    scene.sent.clear()
    scene.away.add("cloud0")
    scene.later(31)
    scene.report()
    scene.settle()
    assert scene.job(job.uid).state is JobState.UNSCHED
    assert "cloud0" in scene.job(job.uid).reason
    assert scene.job(job.uid).flags == ()
    assert [host["node"] for host in scene.content(job.uid)["hosts"]] == ["edge0"]
    assert scene.sent[0] == (job.uid, "node")
    scene.decide_by(a_plan(cloud=()))
    scene.planning.schedule(job.uid, "node", now=scene.now)
    assert scene.job(job.uid).state is JobState.EXEC
    assert types(scene, job.uid) == ["UNSCHED", "EXEC", "UNSCHED", "EXEC"]
    scene.sent.clear()
    scene.away.clear()
    scene.later(1)
    scene.settle()
    assert (job.uid, "node") in scene.sent, "a host that comes back is worth another plan"
    assert [host["node"] for host in scene.content(job.uid)["hosts"]] == ["edge0", "cloud0"]


def test_a_job_whose_nodes_are_there_again_goes_on_with_its_plan(scene: Scene) -> None:
    job = scene.running()
    scene.settle()
    scene.away.add("cloud0")
    scene.later(31)
    scene.report()
    scene.settle()
    scene.away.clear()
    scene.settle()
    after = scene.job(job.uid)
    assert (after.state, after.plan and after.plan.seq) == (JobState.EXEC, 1)


def test_the_jobs_of_a_silent_node_are_flagged_until_it_is_heard_again(scene: Scene) -> None:
    job = scene.running()
    scene.settle()
    scene.away.add("edge0")
    scene.later(31)
    scene.report()
    for _ in range(2):
        scene.settle()
    after = scene.job(job.uid)
    assert (after.flags, after.state) == (("offline",), JobState.EXEC)
    assert types(scene, job.uid)[-1] == "Offline"
    assert types(scene, job.uid).count("Offline") == 1
    assert scene.content(job.uid)["plan"] == after.plan.to_json() if after.plan else False
    scene.away.clear()
    scene.settle()
    assert scene.job(job.uid).flags == ()
    assert types(scene, job.uid)[-1] == "Online"
    scene.reports.take({"job_uid": job.uid, "seq": 1, "results": [result(1)]}, node="edge0", now=scene.now)  # type: ignore[arg-type]
    assert scene.job(job.uid).n_loop == 1


def test_a_runner_that_cannot_run_is_told_of_once(scene: Scene) -> None:
    job = scene.running()
    key = WorkKey(JOBS, job.uid, PART)
    scene.states[key] = WorkerState.FAILED
    for _ in range(3):
        scene.settle()
    assert scene.job(job.uid).reason.startswith("Its runner cannot run")
    assert types(scene, job.uid).count("Note") == 1
    scene.states.clear()
    scene.settle()
    assert scene.job(job.uid).reason == ""


def test_only_what_is_news_has_jobs_looked_at(scene: Scene) -> None:
    job = scene.running()
    scene.settle()
    scene.kicked.clear()
    for number in range(5):
        scene.later(5)
        scene.detail["cloud0"] = {"queue": number}
        scene.report()
    assert scene.kicked == [], "figures change all the time"
    scene.states[HOSTS["cloud0"]] = WorkerState.BACKOFF
    scene.later(1)
    scene.report()
    assert set(scene.kicked) == {"", job.uid}
    scene.kicked.clear()
    scene.states[WorkKey(JOBS, job.uid, PART)] = WorkerState.BACKOFF
    scene.later(1)
    scene.report()
    assert scene.kicked == [job.uid]
    scene.kicked.clear()
    scene.away.add("cloud0")
    scene.later(31)
    scene.container.nodes.look_for_changes(scene.now)
    assert set(scene.kicked) == {"", job.uid}


# --- the picture of the resources -------------------------------------------------------------------
def test_the_picture_has_what_nodes_report_and_the_way_to_them(scene: Scene) -> None:
    job = scene.running()
    scene.detail["edge0"] = {
        "way": {"cloud0": {"up_mbps": 20.0, "down_mbps": 40.0, "at": scene.now.timestamp()}},
        "queue": 1,
    }
    scene.settle()
    scene.later(4)
    info = scene.video.resources.info(scene.job(job.uid), scene.now)
    assert set(info) == {"192.168.56.102", "114.212.81.11"}
    cloud, edge = info["114.212.81.11"], info["192.168.56.102"]
    assert (cloud["node"], cloud["role"], edge["role"], cloud["online"]) == ("cloud0", "cloud", "host", True)
    assert (cloud["cpu_ratio"], cloud["mem_ratio"], cloud["cores"], cloud["accelerators"]) == (
        0.25,
        0.5,
        4,
        ["KL720"],
    )
    assert (cloud["up_mbps"], cloud["down_mbps"]) == (20.0, 40.0)
    assert (edge["up_mbps"], edge["down_mbps"]) == (None, None)
    assert cloud["age_s"] == pytest.approx(4, abs=0.01)
    assert cloud["service"]["face_detection"] == {
        "n_process": 2,
        "cpu_ratio": 0.1,
        "mem_ratio": 0.2,
        "queue": 3,
        "url": "http://114.212.81.11:5500/service/face_detection",
    }
    report: Any = {"job_uid": job.uid, "seq": 1, "results": [], "plan_result": plan_result()}
    scene.reports.take(report, node="edge0", now=scene.now)
    info = scene.video.resources.info(scene.job(job.uid), scene.now)
    assert (info["114.212.81.11"]["up_mbps"], info["114.212.81.11"]["down_mbps"]) == (18.5, 40.0)
    scene.later(1)
    scene.detail["edge0"]["way"]["cloud0"] = {"up_mbps": 2.0, "down_mbps": 4.0, "at": scene.now.timestamp()}
    scene.report()
    info = scene.video.resources.info(scene.job(job.uid), scene.now)
    assert info["114.212.81.11"]["up_mbps"] == 2.0, "what was measured later counts"


def test_nodes_at_one_address_go_by_their_names_and_the_silent_are_told_to_be(scene: Scene) -> None:
    job = scene.running()
    scene.settle()
    cloud = scene.container.nodes.get("cloud0")
    scene.container.nodes.report("cloud0", cloud.report, address="192.168.56.102", version="1", now=scene.now)
    info = scene.video.resources.info(job, scene.now)
    assert set(info) == {"edge0", "cloud0"}
    assert info["cloud0"]["ip"] == "192.168.56.102"
    info = scene.video.resources.info(job, scene.later(31))
    assert [node["online"] for node in info.values()] == [False, False]
    assert scene.video.resources.hosts("alice", "edge0", scene.now) == ()


def test_videos_are_found_by_the_nodes_name_and_address(scene: Scene) -> None:
    resources = scene.video.resources
    (video,) = resources.videos("alice", scene.now)
    assert (video.node, video.address, video.is_online) == ("edge0", "192.168.56.102:7000", True)
    assert video.videos["1"] == {"type": "people indoor", "name": "classroom-270p.mp4"}
    assert (
        resources.find("alice", "edge0", scene.now)
        == resources.find("alice", "192.168.56.102:7000", scene.now)
        == video
    )
    assert resources.find("alice", "", scene.now) is resources.find("alice", "cloud0", scene.now) is None
    (silent,) = resources.videos("alice", scene.later(31))
    assert not silent.is_online


def test_videos_come_in_the_order_of_their_numbers(scene: Scene) -> None:
    videos = {str(number): {"type": "hall", "name": f"{number}.mp4"} for number in (0, 1, 10, 11, 2, 3)}
    offers = {JOBS: {"address": "", "videos": videos}}
    scene.container.nodes.report("edge0", NodeReport(offers=offers), address="", version="1", now=scene.now)
    (video,) = scene.video.resources.videos("alice", scene.now)
    assert list(video.videos) == ["0", "1", "2", "3", "10", "11"]


def test_what_a_node_offers_need_not_have_the_right_form(scene: Scene) -> None:
    for offered in (4, {"videos": 4}, {"videos": {"0": 4}}, {}, None):
        scene.container.nodes.report(
            "edge1", NodeReport(offers={JOBS: offered}), address="", version="1", now=scene.now
        )
        assert [one.node for one in scene.video.resources.videos("alice", scene.now)] == ["edge0"], offered


def test_a_scrape_counts_jobs_by_state(scene: Scene) -> None:
    job = scene.running()
    scene.submit()
    scene.jobs.cancel(USER, job.uid, now=scene.now)
    scene.submit()
    (family,) = VideoCollector(scene.container.database).collect()
    counts = {sample.labels["state"]: sample.value for sample in family.samples}
    assert counts == {"UNSCHED": 2, "EXEC": 0, "DONE": 1}


def test_a_restarted_product_knows_its_jobs_and_their_numbers(scene: Scene, container: Container) -> None:
    job = scene.running()
    again = assemble(container.settings)
    try:
        assert again.video.jobs.get(USER, job.uid) == scene.job(job.uid)
        with again.database.write() as conn:
            assert store.next_number(conn) == 2
    finally:
        again.close()
