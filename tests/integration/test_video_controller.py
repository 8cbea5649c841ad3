"""The controller of video jobs against pretended nodes: what they are told, when that changes, and what it says of jobs
whose nodes are gone."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from app.bootstrap.container import Container, assemble
from app.nodes.model import NodeReport, Operation, Side, WorkerReport, WorkerState, WorkKey
from app.nodes.wire import Heartbeat
from app.video import store
from app.video.metrics import VideoCollector
from app.video.model.job import JOBS, PART, SERVICES, SERVICES_PART, JobContent, JobState, ServicesContent
from app.video.service import stage_deployment
from app.video.service.resources import host_key
from tests.harness.api import vector_model
from tests.harness.video.nodes import USER, Env, a_plan
from tests.harness.video.records import dag, plan_result, result, running_video

HOSTS = {name: WorkKey(SERVICES, name, SERVICES_PART) for name in ("edge0", "cloud0")}


@pytest.fixture
def env(container: Container) -> Env:
    return Env(container)


def served(env: Env, node: str) -> ServicesContent | None:
    """What this node is told to serve."""
    orders = [order for order in env.orders(SERVICES, node) if order.operation is not Operation.DELETE]
    assert all(order.node == node for order in orders)
    return ServicesContent.from_json(orders[0].content) if orders else None


def types(env: Env, uid: str) -> list[str]:
    return [event.type for event in env.jobs.events(USER, uid)]


def seqs(env: Env, uid: str) -> list[int]:
    kinds = [(JOBS, uid), *((SERVICES, node) for node in HOSTS)]
    return [order.seq for kind, name in kinds for order in env.orders(kind, name)]


# --- hosts of stages --------------------------------------------------------------------------------
def test_a_node_with_the_longest_name_serves_stages(env: Env) -> None:
    """The uid of an order is shorter: what a node says of it has to be taken, and found again."""
    name, nodes = "e" * 63, env.container.nodes
    nodes.register(name, Side.CLOUD, now=env.now)
    nodes.report(name, NodeReport(), address="10.0.0.9", version="1", now=env.now)
    env.controller.reconcile("", now=env.now)
    key = host_key(name)
    (order,) = nodes.pending(name)
    assert order.key == key
    worker = WorkerReport(key, "video", name, f"services-{name}", 1, WorkerState.RUNNING, address="10.0.0.9:5500")
    heartbeat = Heartbeat("1", "10.0.0.9", NodeReport(workers=(worker,)), {str(key): order.seq})
    heard = Heartbeat.from_json(heartbeat.to_json())
    nodes.report(name, heard.report, address=heard.address, version="1", now=env.now)
    assert name in [host.node for host in env.container.video.resources.hosts("alice", "edge0", env.now)]
    nodes.report(name, NodeReport(), address="10.0.0.9", version="1", now=env.now)
    env.controller.reconcile("", now=env.now)
    assert [order.key for order in nodes.pending(name)] == [key], "it is told once"


def test_a_host_of_stages_is_called_at_host_and_port_and_nothing_else(env: Env) -> None:
    nodes, key = env.container.nodes, host_key("cloud0")
    env.controller.reconcile("", now=env.now)
    good = ("10.0.0.9:5500", "node-7.lan:80", "[fd00::1]:80")
    bad = ("", "10.0.0.9", "10.0.0.9:80/latest?x=", "user@10.0.0.9:80", "10.0.0.9:80#", "a b:80", "10.0.0.9:80\n")
    for address in (*good, *bad, good[0]):
        worker = WorkerReport(key, "video", "cloud0", "services-cloud0", 1, WorkerState.RUNNING, address=address)
        nodes.report("cloud0", NodeReport(workers=(worker,)), address="10.0.0.9", version="1", now=env.now)
        names = [host.node for host in env.container.video.resources.hosts("alice", "edge0", env.now)]
        assert ("cloud0" in names) == (address in good), address


def test_nodes_with_videos_and_of_the_cloud_serve_the_catalogue(env: Env) -> None:
    env.controller.reconcile("", now=env.now)
    edge, cloud = served(env, "edge0"), served(env, "cloud0")
    assert served(env, "edge1") is None
    assert edge is not None and cloud is not None
    assert set(edge.stages) == set(cloud.stages) == {"face_detection", "face_alignment"}
    assert edge.processes == env.container.settings.video_processes
    assert edge.secret and cloud.secret and edge.secret != cloud.secret
    assert edge.peers == ()
    env.settle()
    after = served(env, "edge0")
    assert after is not None
    (peer,) = after.peers
    assert (peer.node, peer.role, peer.url, peer.secret) == (
        "cloud0",
        "cloud",
        "http://114.212.81.11:5500",
        cloud.secret,
    )
    assert after.secret == edge.secret, "an order that changes keeps its secret"


def test_of_many_nodes_each_knows_few_others_and_all_orders_are_read_at_once(
    env: Env, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage_deployment, "MOST_PEERS", 3)
    statements = list[str]()
    sa.event.listen(env.container.database._engine, "before_cursor_execute", lambda *facts: statements.append(facts[2]))

    def reads(count: int) -> int:
        """Of orders, when nothing changes; after so many more nodes of the cloud have come to serve."""
        nodes = env.container.nodes
        for number in range(count):
            name = f"cloud{10 + number}"
            nodes.register(name, Side.CLOUD, now=env.now, replace=True)
            host = WorkerReport(host_key(name), "video", name, "", 1, WorkerState.RUNNING, address=f"{name}:5500")
            nodes.report(name, NodeReport(workers=(host,)), address=name, version="1", now=env.now)
        env.settle()
        statements.clear()
        env.controller.reconcile("", now=env.now)
        return sum("FROM node_orders" in statement for statement in statements)

    few, many = reads(1), reads(6)
    assert many == few
    edge, cloud = served(env, "edge0"), served(env, "cloud10")
    assert edge is not None and cloud is not None
    assert [peer.node for peer in edge.peers] == ["cloud0", "cloud10", "cloud11"]
    assert [peer.node for peer in cloud.peers] == ["cloud0", "cloud11", "cloud12"], "those of the cloud first"


def test_without_stages_nothing_is_served_and_with_the_first_again(env: Env) -> None:
    env.settle()
    for name in ("face_detection", "face_alignment"):
        env.video.catalogue.remove(name)
    env.settle()
    assert served(env, "edge0") is served(env, "cloud0") is None
    assert env.orders(SERVICES, "edge0") == []


def test_a_jobs_own_stages_are_served_under_its_name_until_it_ends(env: Env, container: Container) -> None:
    container.models.add_upload(USER, "mine", [vector_model()], now=env.now)
    own: dict[str, Any] = {"face_detection": {"kind": "face_detection", "models": ["mine"]}}
    job = env.submit(dag={**dag(), "stages": own})
    env.settle()
    edge = served(env, "edge0")
    assert edge is not None
    assert set(edge.stages) == {"face_detection", "face_alignment", f"{job.uid}/face_detection"}
    assert edge.stages[f"{job.uid}/face_detection"] == job.stages[0]
    info = env.video.resources.info(job, env.now)
    assert set(info["192.168.56.102"]["service"]) == {"face_detection", "face_alignment"}
    other = env.video.resources.info(env.submit(), env.now)
    assert set(other["192.168.56.102"]["service"]) == {"face_detection", "face_alignment"}
    env.jobs.cancel(USER, job.uid, now=env.now)
    env.settle()
    edge = served(env, "edge0")
    assert edge is not None
    assert set(edge.stages) == {"face_detection", "face_alignment"}


# --- orders of jobs ---------------------------------------------------------------------------------
def test_the_node_of_the_video_is_told_all_that_a_runner_needs(env: Env) -> None:
    job = env.running(constraint={"delay": 0.3})
    content = JobContent.from_json(env.content(job.uid))
    assert (content.uid, content.video_id, content.secret) == (job.uid, "1", job.secret)
    assert content.dag.to_json() == dag()
    assert content.stages == job.stages
    assert content.plan == job.plan
    assert content.constraint.hi == 0.3
    assert [(host.node, host.role) for host in content.hosts] == [("edge0", "host"), ("cloud0", "cloud")]
    assert all(host.secret for host in content.hosts)


def test_looking_again_changes_nothing_and_writes_nothing(env: Env) -> None:
    job = env.running()
    env.settle()
    before, events = seqs(env, job.uid), types(env, job.uid)
    env.sent.clear()
    for _ in range(3):
        env.later(1)
        env.settle()
    assert seqs(env, job.uid) == before
    assert types(env, job.uid) == events
    assert env.sent == []


def test_what_ended_or_is_gone_is_withdrawn_and_looked_at_no_more(env: Env) -> None:
    job = env.running()
    env.jobs.cancel(USER, job.uid, now=env.now)
    assert job.uid in env.controller.due(env.later(60)), "its node has not been told"
    env.controller.reconcile(job.uid, now=env.now)
    (order,) = env.orders(JOBS, job.uid)
    assert order.operation is Operation.DELETE
    assert env.controller.due(env.later(60)) == [""]
    env.controller.reconcile(job.uid, now=env.now)
    env.controller.reconcile("GLOBAL_ID_99.SUB_ID_1", now=env.now)
    env.report()
    assert env.orders(JOBS, job.uid) == []


def test_all_are_due_every_ten_seconds(env: Env) -> None:
    jobs = [env.submit().uid for _ in range(3)]
    assert env.controller.due(env.now) == ["", *jobs]
    assert env.controller.due(env.later(5)) == []
    assert env.controller.due(env.later(5)) == ["", *jobs]


# --- hosts that come and go -------------------------------------------------------------------------
def test_a_host_that_goes_leaves_the_job_unscheduled_until_there_is_another_plan(env: Env) -> None:
    job = env.running()
    env.settle()
    env.sent.clear()
    env.away.add("cloud0")
    env.later(31)
    env.report()
    env.settle()
    assert env.job(job.uid).state is JobState.UNSCHED
    assert "cloud0" in env.job(job.uid).reason
    assert env.job(job.uid).flags == ()
    assert [host["node"] for host in env.content(job.uid)["hosts"]] == ["edge0"]
    assert env.sent[0] == (job.uid, "node")
    env.decide_by(a_plan(cloud=()))
    env.planning.schedule(job.uid, "node", now=env.now)
    assert env.job(job.uid).state is JobState.EXEC
    assert types(env, job.uid) == ["UNSCHED", "EXEC", "UNSCHED", "EXEC"]
    env.sent.clear()
    env.away.clear()
    env.later(1)
    env.settle()
    assert (job.uid, "node") in env.sent, "a host that comes back is worth another plan"
    assert [host["node"] for host in env.content(job.uid)["hosts"]] == ["edge0", "cloud0"]


def test_a_job_whose_nodes_are_there_again_goes_on_with_its_plan(env: Env) -> None:
    job = env.running()
    env.settle()
    env.away.add("cloud0")
    env.later(31)
    env.report()
    env.settle()
    env.away.clear()
    env.settle()
    after = env.job(job.uid)
    assert (after.state, after.plan and after.plan.seq) == (JobState.EXEC, 1)


def test_the_jobs_of_a_silent_node_are_flagged_until_it_is_heard_again(env: Env) -> None:
    job = env.running()
    env.settle()
    env.away.add("edge0")
    env.later(31)
    env.report()
    for _ in range(2):
        env.settle()
    after = env.job(job.uid)
    assert (after.flags, after.state) == (("offline",), JobState.EXEC)
    assert types(env, job.uid)[-1] == "Offline"
    assert types(env, job.uid).count("Offline") == 1
    assert env.content(job.uid)["plan"] == after.plan.to_json() if after.plan else False
    env.away.clear()
    env.settle()
    assert env.job(job.uid).flags == ()
    assert types(env, job.uid)[-1] == "Online"
    env.reports.take({"job_uid": job.uid, "seq": 1, "results": [result(1)]}, node="edge0", now=env.now)  # type: ignore[arg-type]
    assert env.job(job.uid).n_loop == 1


def test_the_jobs_of_a_node_that_cannot_store_results_are_flagged_until_it_can(env: Env) -> None:
    job = env.running()
    env.settle()
    env.woken.clear()
    env.report_problem = "its disk is full"
    env.report()
    assert job.uid in env.woken
    for _ in range(2):
        env.settle()
    assert (env.job(job.uid).flags, env.job(job.uid).state) == (("node_full",), JobState.EXEC)
    assert types(env, job.uid).count("NodeFull") == 1
    assert "its disk is full" in env.jobs.events(USER, job.uid)[-1].message
    report = {"job_uid": job.uid, "seq": 1, "results": [result(1)], "flags": ["degraded"]}
    env.reports.take(report, node="edge0", now=env.now)  # type: ignore[arg-type]
    assert env.job(job.uid).flags == ("degraded", "node_full"), "the runner knows nothing of it"
    env.report_problem = ""
    env.settle()
    assert env.job(job.uid).flags == ("degraded",)
    assert types(env, job.uid)[-1] == "NodeRoom"


def test_the_jobs_of_a_node_whose_reports_are_not_taken_are_flagged_until_they_are(env: Env) -> None:
    job = env.running()
    env.settle()
    env.woken.clear()
    env.delivery_problem = "The store is full"
    env.report()
    assert job.uid in env.woken
    for _ in range(2):
        env.settle()
    assert (env.job(job.uid).flags, env.job(job.uid).state) == (("undelivered",), JobState.EXEC)
    assert types(env, job.uid).count("Undelivered") == 1
    assert "The store is full" in env.jobs.events(USER, job.uid)[-1].message
    env.delivery_problem = ""
    env.settle()
    assert (env.job(job.uid).flags, types(env, job.uid)[-1]) == ((), "Delivered")


def test_a_runner_that_cannot_run_is_told_of_once(env: Env) -> None:
    job = env.running()
    key = WorkKey(JOBS, job.uid, PART)
    env.states[key] = WorkerState.FAILED
    for _ in range(3):
        env.settle()
    assert env.job(job.uid).reason.startswith("Its runner cannot run")
    assert types(env, job.uid).count("Note") == 1
    env.states.clear()
    env.settle()
    assert env.job(job.uid).reason == ""


def test_what_a_runner_says_at_its_end_is_not_taken_for_a_silent_source(env: Env) -> None:
    job = env.running()
    key = WorkKey(JOBS, job.uid, PART)
    env.states[key], env.messages[key] = WorkerState.FAILED, "its last lines were:\nNo signal: it is gone."
    for _ in range(3):
        env.settle()
    seen = env.job(job.uid)
    assert seen.reason == seen.runner_trouble == f"Its runner cannot run: {env.messages[key]}"
    assert (seen.silence, types(env, job.uid).count("Note")) == ("", 1)
    env.states.clear()
    env.settle()
    assert env.job(job.uid).reason == ""


@pytest.mark.parametrize("is_stalled_first", [True, False])
def test_a_runner_that_cannot_be_changed_goes_on_and_hides_no_silent_source(env: Env, is_stalled_first: bool) -> None:
    job = env.running()
    key, note = WorkKey(JOBS, job.uid, PART), "No signal: it is gone. The source is opened again until it is back."

    def report(seq: int, *flags: str) -> None:
        facts: Any = {"flags": flags, "silent_s": 1.0, "note": note} if flags else {"flags": []}
        env.reports.take({"job_uid": job.uid, "seq": seq, "results": [], **facts}, node="edge0", user="", now=env.now)

    def stall() -> None:
        env.states[key], env.former[key] = WorkerState.FAILED, 1
        env.report()
        env.settle()

    def silence() -> None:
        report(90, "no_signal")

    for step in (stall, silence) if is_stalled_first else (silence, stall):
        step()
    env.settle()
    seen = env.job(job.uid)
    assert seen.reason == f"{seen.runner_trouble}\n{note}" and seen.silence == note
    assert seen.runner_trouble.startswith("Its runner cannot be changed, and goes on as before: ")
    assert types(env, job.uid).count("Note") == 2
    if is_stalled_first:
        report(91)
        assert env.job(job.uid).reason == seen.runner_trouble
    env.former.clear()
    env.report()
    env.settle()
    assert env.job(job.uid).reason.startswith("Its runner cannot run: "), "its process has ended meanwhile"
    env.states.clear()
    env.settle()
    assert env.job(job.uid).reason == ("" if is_stalled_first else note)


def test_only_what_is_news_has_jobs_looked_at(env: Env) -> None:
    job = env.running()
    env.settle()
    env.woken.clear()
    for number in range(5):
        env.later(5)
        env.detail["cloud0"] = {"queue": number}
        env.report()
    assert env.woken == [], "figures change all the time"
    env.states[HOSTS["cloud0"]] = WorkerState.BACKOFF
    env.later(1)
    env.report()
    assert set(env.woken) == {"", job.uid}
    env.woken.clear()
    env.states[WorkKey(JOBS, job.uid, PART)] = WorkerState.BACKOFF
    env.later(1)
    env.report()
    assert env.woken == [job.uid]
    env.woken.clear()
    env.away.add("cloud0")
    env.later(31)
    env.container.nodes.look_for_changes(env.now)
    assert set(env.woken) == {"", job.uid}


# --- the picture of the resources -------------------------------------------------------------------
def test_the_picture_has_what_nodes_report_and_the_way_to_them(env: Env) -> None:
    job = env.running()
    env.detail["edge0"] = {
        "way": {"cloud0": {"up_mbps": 20.0, "down_mbps": 40.0, "at": env.now.timestamp()}},
        "queue": 1,
    }
    env.settle()
    env.later(4)
    info = env.video.resources.info(env.job(job.uid), env.now)
    assert set(info) == {"192.168.56.102", "114.212.81.11"}
    cloud, edge = info["114.212.81.11"], info["192.168.56.102"]
    assert (cloud["node"], cloud["role"], edge["role"], cloud["online"]) == ("cloud0", "cloud", "host", True)
    assert (cloud["cpu_ratio"], cloud["mem_ratio"], cloud["cores"], cloud["accelerators"]) == (
        0.25,
        0.5,
        4,
        ["KL720"],
    )
    assert cloud["video_ratio"] == pytest.approx(0.15)
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
    env.reports.take(report, node="edge0", now=env.now)
    info = env.video.resources.info(env.job(job.uid), env.now)
    assert (info["114.212.81.11"]["up_mbps"], info["114.212.81.11"]["down_mbps"]) == (18.5, 40.0)
    env.later(1)
    env.detail["edge0"]["way"]["cloud0"] = {"up_mbps": 2.0, "down_mbps": 4.0, "at": env.now.timestamp()}
    env.report()
    info = env.video.resources.info(env.job(job.uid), env.now)
    assert info["114.212.81.11"]["up_mbps"] == 2.0, "what was measured later counts"


def test_nodes_at_one_address_go_by_their_names_and_the_silent_are_told_to_be(env: Env) -> None:
    job = env.running()
    env.settle()
    cloud = env.container.nodes.get("cloud0")
    env.container.nodes.report("cloud0", cloud.report, address="192.168.56.102", version="1", now=env.now)
    info = env.video.resources.info(job, env.now)
    assert set(info) == {"edge0", "cloud0"}
    assert info["cloud0"]["ip"] == "192.168.56.102"
    info = env.video.resources.info(job, env.later(31))
    assert [node["online"] for node in info.values()] == [False, False]
    assert env.video.resources.hosts("alice", "edge0", env.now) == ()


def test_videos_are_found_by_the_nodes_name_and_address(env: Env) -> None:
    resources = env.video.resources
    (video,) = resources.videos("alice", env.now)
    assert (video.node, video.address, video.is_online) == ("edge0", "192.168.56.102:7000", True)
    assert video.videos["1"] == {"type": "people indoor", "name": "classroom-270p.mp4"}
    assert resources.find("alice", "edge0", env.now) == resources.find("alice", "192.168.56.102:7000", env.now) == video
    assert resources.find("alice", "", env.now) is resources.find("alice", "cloud0", env.now) is None
    (silent,) = resources.videos("alice", env.later(31))
    assert not silent.is_online


def test_videos_come_in_the_order_of_their_numbers(env: Env) -> None:
    videos = {str(number): {"type": "hall", "name": f"{number}.mp4"} for number in (0, 1, 10, 11, 2, 3)}
    offers = {JOBS: {"address": "", "videos": videos}}
    env.container.nodes.report("edge0", NodeReport(offers=offers), address="", version="1", now=env.now)
    (video,) = env.video.resources.videos("alice", env.now)
    assert list(video.videos) == ["0", "1", "2", "3", "10", "11"]


def test_what_a_node_offers_need_not_have_the_right_form(env: Env) -> None:
    for offered in (4, {"videos": 4}, {"videos": {"0": 4}}, {}, None):
        env.container.nodes.report("edge1", NodeReport(offers={JOBS: offered}), address="", version="1", now=env.now)
        assert [one.node for one in env.video.resources.videos("alice", env.now)] == ["edge0"], offered


def test_a_scrape_counts_jobs_by_state(env: Env) -> None:
    job = env.running()
    env.submit()
    env.jobs.cancel(USER, job.uid, now=env.now)
    env.submit()
    families = {family.name: family.samples for family in VideoCollector(env.container.database).collect()}
    counts = {sample.labels["state"]: sample.value for sample in families["modelmill_video_jobs"]}
    assert counts == {"UNSCHED": 2, "EXEC": 0, "DONE": 1}


def test_a_scrape_has_how_each_job_does_that_has_not_ended(env: Env) -> None:
    job = running_video(env.container.video, USER, now=env.now)
    env.jobs.cancel(USER, env.submit().uid, now=env.now)
    with env.container.database.write() as conn:
        store.change(conn, job.uid, no_signal_since="2026-11-27T12:00:00.000Z")
    families = {family.name: family.samples for family in VideoCollector(env.container.database).collect()}
    (signal,) = families["modelmill_video_job_signal"]
    assert signal.labels == {"owner": USER, "video_job": job.uid, "node": job.node, "video": job.video_id}
    assert (signal.value, families["modelmill_video_job_frames_per_second"][0].value) == (0, 5.8)
    stages = {sample.labels["stage"]: sample.value for sample in families["modelmill_video_stage_seconds"]}
    assert stages == {"face_detection": 0.12, "face_alignment": 0.09}
    delays = {sample.labels["quantile"]: sample.value for sample in families["modelmill_video_job_delay_seconds"]}
    assert delays == {"0.5": 0.23, "0.95": 0.31}


def test_a_restarted_product_knows_its_jobs_and_their_numbers(env: Env, container: Container) -> None:
    job = env.running()
    again = assemble(container.settings)
    try:
        assert again.video.jobs.get(USER, job.uid) == env.job(job.uid)
        with again.database.write() as conn:
            assert store.next_number(conn) == 2
    finally:
        again.close()
