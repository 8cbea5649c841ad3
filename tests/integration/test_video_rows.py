"""What the requirement says of video jobs, on a whole product with nodes of its own, real models and clips."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from PIL import Image

from app.bootstrap.container import assemble
from app.kit.files import sha256_of
from app.kit.web.mjpeg import PartReader
from tests.harness.conversion_jobs import finished_job
from tests.harness.models.converted import OPTIONS, converted_faces
from tests.harness.until import until
from tests.harness.video.cluster import (
    ADDRESSES,
    CLOUD,
    EDGE,
    FACES,
    FORKED,
    FRAME,
    GENERATOR,
    OTHER,
    VIDEO,
    VideoCluster,
    dag,
    one_stage,
)

pytestmark = pytest.mark.slow
AT_ONCE = 50
SAME_FRAMES = 5
FAST = {"policy": "edge_only", "realtime": False}
SEEN = dag(
    [GENERATOR, "face_detection", "sizes"],
    {"face_detection": {"image": FRAME}, "sizes": {"image": FRAME}},
    "sizes.count_result",
)


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory, shared_data: Path) -> Iterator[VideoCluster]:
    video_cluster = VideoCluster(tmp_path_factory.mktemp("cluster"))
    try:
        video_cluster.begin(shared_data)
        yield video_cluster
    finally:
        video_cluster.close()


@pytest.fixture
def cluster(started: VideoCluster, request: pytest.FixtureRequest) -> VideoCluster:
    """Without the jobs of other tests, but for what this one shares with them."""
    started.end_jobs(but=request.fixturenames)
    return started


@pytest.fixture
def sizes(cluster: VideoCluster) -> str:
    """A job that several tests share."""
    return cluster.keep("sizes", one_stage("sizes"), policy="tells")


@pytest.fixture
def seen(cluster: VideoCluster) -> str:
    """As sizes, with detection."""
    return cluster.keep("seen", SEEN, policy="fixed")


# --- nodes and their jobs ---------------------------------------------------------------------------------
def test_a_node_that_was_there_before_the_web_runs_the_requirements_job_with_the_cloud(cluster: VideoCluster) -> None:
    assert "again" in cluster.early
    uid = cluster.submit(FACES, policy="cloud_only", user_constraint={"delay": 60})  # a busy cloud is waited for
    frames = until(lambda: cluster.frames(uid), lambda value: len(value) == 10)
    assert {frame["total"] for frame in frames} <= {3, 4}
    loops = [frame["n_loop"] for frame in frames]
    assert loops == sorted(set(loops))
    stages = {"face_detection", "face_alignment"}
    until(lambda: {call["stage"] for call in cluster.calls(CLOUD, uid)}, stages.__eq__)
    assert not cluster.calls(EDGE, uid)
    assert len(cluster.runners(EDGE)) == 1
    assert not cluster.runners(CLOUD)
    status = cluster.http.get("/user/get_all_status").json()["data"]
    assert status[f"{ADDRESSES[EDGE]}:{cluster.agents[EDGE].port}"]["job_uid_list"] == [uid]


@pytest.mark.exhaustive  # the runner's own tests show it
def test_siblings_get_the_same_bytes_at_the_same_time_and_the_merge_waits_for_both(cluster: VideoCluster) -> None:
    uid = cluster.submit(FORKED, policy="fixed")
    until(lambda: cluster.frames(uid))
    both = {"left": (0, CLOUD), "right": (0, CLOUD), "compared": (0, EDGE)}
    for places in ({**both, "left": (0, EDGE), "right": (0, EDGE)}, both):
        cluster.measured(uid, {"fps": 4}, places)
        rows = [{name: row[name] for name in ("same", "after")} for row in cluster.advances(uid, 5)[-5:]]
        assert rows == [{"same": 1, "after": 1}] * 5
    cluster.measured(uid, {"fps": 4}, {**both, "left": (0, EDGE)})
    rows = [{name: row[name] for name in ("beside", "after")} for row in cluster.advances(uid, 5)[-5:]]
    assert [row["after"] for row in rows] == [1] * 5
    assert any(row["beside"] for row in rows), (
        "a busy machine may begin one after the other has ended, but not each time"
    )


@pytest.mark.exhaustive  # those of the host show it
def test_three_jobs_share_one_process_evenly_and_a_fourth_whose_stage_raises_ends_alone(cluster: VideoCluster) -> None:
    (process,) = cluster.workers(EDGE, "app.edge.video.stage_host.host")
    uids = [cluster.submit(one_stage("pausing"), **FAST) for _ in range(3)]
    failing = cluster.submit(one_stage("failing"), **{**FAST, "restart_policy": "never"})
    for uid in uids:
        until(lambda uid=uid: cluster.frames(uid))
    begun = [cluster.job(uid)["n_loop"] for uid in uids]
    ended = until(lambda: cluster.job(failing), lambda job: job["state"] == "DONE")
    assert ended["ending"] == "error"
    assert "the lens is dirty" in ended["reason"]
    cluster.advances(uids[0], 15)
    steps = [cluster.job(uid)["n_loop"] - first for uid, first in zip(uids, begun, strict=True)]
    assert 0 < max(steps) <= 2 * min(steps)
    assert cluster.workers(EDGE, "app.edge.video.stage_host.host") == [process]


@pytest.mark.exhaustive  # the runner's own tests show it
def test_the_delay_that_is_told_is_what_the_stage_takes(cluster: VideoCluster) -> None:
    uid = cluster.submit(one_stage("pausing"), policy="fixed")
    until(lambda: cluster.frames(uid))
    cluster.measured(uid, {"fps": 4, "nskip": 1}, {"pausing": (0, EDGE)})
    value = until(
        lambda: cluster.plan_result(uid),
        lambda value: value["frames"] >= 5 and value["delay"]["pausing"] == pytest.approx(0.1, rel=0.2),
    )
    assert value["skipped"] > 0


# --- who decides ------------------------------------------------------------------------------------------
@pytest.mark.exhaustive  # the planning's own tests show it
def test_a_demand_is_in_the_next_decision(cluster: VideoCluster, sizes: str) -> None:
    uid = sizes
    cluster.choose(uid, "tells")
    constraint = {"job_uid": uid, "user_constraint": {"delay": [0.1, 0.25], "acc_level": 4}}
    answer = cluster.http.post("/user/submit_job_user_constraint", json=constraint)
    assert answer.status_code == 200
    since = until(lambda: [one for one in cluster.decisions(uid) if one["why"] == "constraint"])[0]["at"]
    decided = until(  # on a busy machine the policy may fail at first, because it is late
        lambda: [one for one in cluster.decisions(uid) if one["at"] >= since and one["outcome"] in ("same", "new")]
    )
    reasons = [one["reason"].replace("(", "[").replace(")", "]") for one in decided]
    assert all("Demanded: [0.1, 0.25], 0.9." in reason for reason in reasons), reasons
    wrong = {"job_uid": uid, "user_constraint": {"delay": "soon"}}
    assert cluster.http.post("/user/submit_job_user_constraint", json=wrong).status_code == 400


@pytest.mark.exhaustive  # the planning's own tests show it
def test_a_policy_that_raises_sleeps_or_answers_nonsense_changes_nothing_and_another_takes_over(
    cluster: VideoCluster, sizes: str
) -> None:
    uid = sizes
    cluster.choose(uid, "edge_only")
    until(lambda: cluster.job(uid)["plan"]["policy"] == "edge_only")
    for policy, outcome in (("raises", "raised"), ("sleeps", "late"), ("nonsense", "invalid")):
        plan = cluster.job(uid)["plan"]
        cluster.choose(uid, policy)
        decisions = until(
            lambda policy=policy: [one for one in cluster.decisions(uid) if one["policy"] == policy],
            lambda decisions, outcome=outcome: any(one["outcome"] == outcome for one in decisions),
        )
        # On a busy machine a policy may also be late, or its process not start in time.
        assert {one["outcome"] for one in decisions} <= {outcome, "late", "raised"}
        assert all(one["plan"] is None and one["reason"] for one in decisions)
        cluster.advances(uid)
        assert (cluster.job(uid)["plan"], cluster.job(uid)["state"]) == (plan, "EXEC")
    cluster.choose(uid, "tells")
    until(lambda: cluster.job(uid)["plan"]["policy"] == "tells")
    assert cluster.job(uid)["plan"]["video_conf"]["fps"] == 5
    assert "Scheduled by tells, and no longer by nonsense." in cluster.events_text(uid)


def test_a_place_whose_role_and_address_do_not_agree_is_refused(cluster: VideoCluster, sizes: str) -> None:
    cluster.choose(sizes, "fixed")
    until(lambda: any(one["policy"] == "fixed" for one in cluster.decisions(sizes)))
    plan = cluster.job(sizes)["plan"]
    edge, cloud = ADDRESSES[EDGE], ADDRESSES[CLOUD]
    for role, ip in (("cloud", edge), ("host", cloud), ("edge", cloud), ("cloud", "10.9.9.9")):
        mapping = {"sizes": {"model_id": 0, "node_role": role, "node_ip": ip}}
        body = {"job_uid": sizes, "video_conf": {"fps": 3}, "flow_mapping": mapping}
        answer = cluster.http.post("/node/update_plan", json=body)
        assert answer.status_code == 400
        assert answer.json()["status"] == 1
        assert ip in answer.json()["error"]
        assert cluster.job(sizes)["plan"] == plan


def resources_of(cluster: VideoCluster, uid: str) -> dict[str, Any]:
    """By the node's address: complete, and not old."""
    resources: dict[str, Any] = until(
        lambda: cluster.http.get(f"{VIDEO}/jobs/{uid}/resources").json()["resources"],
        lambda resources: all(node["age_s"] <= 15 for node in resources.values()),
    )
    assert set(resources) == set(ADDRESSES.values())
    services = [node["service"]["sizes"] for node in resources.values()]
    assert all(service["n_process"] == 1 for service in services)
    assert all(0 < service["mem_ratio"] < 1 for service in services)
    assert {service["url"].rpartition(":")[0] for service in services} == {
        f"http://{address}" for address in ADDRESSES.values()
    }
    return resources


def test_the_resource_picture_has_what_nodes_measure_and_is_never_old(cluster: VideoCluster, sizes: str) -> None:
    def is_measured(resources: dict[str, Any]) -> bool:
        way = resources[ADDRESSES[CLOUD]]
        has_way = (way["up_mbps"] or 0) > 0 and (way["down_mbps"] or 0) > 0
        return has_way and all(0 < node["cpu_ratio"] <= 1 for node in resources.values())

    until(lambda: resources_of(cluster, sizes), is_measured)


@pytest.mark.exhaustive  # keeps all processors busy for some reports; a test of the report burns one for a moment
def test_a_busy_machine_shows_in_the_resource_picture(cluster: VideoCluster, sizes: str) -> None:
    def figures() -> list[float]:
        resources = resources_of(cluster, sizes).values()
        services = [node["service"]["sizes"] for node in resources]
        assert all(service["cpu_ratio"] < 0.9 for service in services), "of a busy machine the services have a part"
        return [node["cpu_ratio"] for node in resources]

    command = ["nice", "-n", "19", sys.executable, "-c", "while True: pass"]  # what other tests need is theirs
    burning = [subprocess.Popen(command) for _ in range(os.cpu_count() or 1)]
    try:
        until(figures, lambda info: min(info) > 0.9)
    finally:
        for process in burning:
            process.kill()
            process.wait()


@pytest.mark.exhaustive  # in a crowd of tests two looks at the same processor differ
def test_the_resource_picture_of_a_calm_machine_is_what_it_measures_itself(cluster: VideoCluster, sizes: str) -> None:
    def figures() -> list[float]:
        resources = cluster.http.get(f"{VIDEO}/jobs/{sizes}/resources").json()["resources"]
        return [node["cpu_ratio"] for node in resources.values()]

    until(lambda: max(abs(each - psutil.cpu_percent(0.5) / 100) for each in figures()), lambda off: off < 0.25)


@pytest.mark.exhaustive  # the runner's own tests turn each of them
def test_each_knob_of_a_plan_by_hand_moves_what_it_should(cluster: VideoCluster, seen: str) -> None:
    uid = seen
    here, there = ({"face_detection": (2, node), "sizes": (0, node)} for node in (EDGE, CLOUD))

    def reached(conf: dict[str, Any], is_so: Any, places: Any = here) -> Any:
        cluster.measured(uid, conf, places)
        return until(lambda: cluster.plan_result(uid), lambda value: "fps" in value and is_so(value))

    reached({}, lambda value: abs(value["fps"] - 12) <= 1.2 and of_each_frame(value) == (0, 0))
    assert cluster.advances(uid)[-1]["width"] == 320
    cluster.measured(uid, {"resolution": "360p"}, here)
    assert cluster.advances(uid)[-1]["width"] == 480
    reached({"fps": 5}, lambda value: abs(value["fps"] - 5) <= 0.5)
    reached({"nskip": 3}, lambda value: of_each_frame(value) == (3, 0))
    reached({"ntracking": 3}, lambda value: of_each_frame(value) == (0, 3))
    assert {row["tracked"] for row in cluster.advances(uid)} == {True, False}
    jpeg, h264 = (
        reached({"encoder": encoder}, lambda value: value["frames"] >= 8, there)["bytes_up"]
        for encoder in ("JPEG", "H264")
    )
    assert 0 < h264 < jpeg


def of_each_frame(frames: dict[str, Any]) -> tuple[int, int] | None:
    """How many were skipped, and how many tracked, to one that was processed; of a few frames that says nothing."""
    if frames["frames"] < 5:
        return None
    return round(frames["skipped"] / frames["frames"]), round(frames["tracked"] / frames["frames"])


@pytest.mark.exhaustive  # those of the host and of the runner show it
def test_big_middle_and_small_run_where_the_plan_says(cluster: VideoCluster, seen: str, shared_data: Path) -> None:
    """That each computes what its own file computes is shown by the tests of the host of stages."""
    uid = seen
    for model_id, model in enumerate(("face_rfb_640", "face_rfb_320", "face_slim_320")):
        cluster.measured(uid, {}, {"face_detection": (model_id, EDGE), "sizes": (0, EDGE)})
        *_, call = (call for call in cluster.calls(EDGE, uid) if call["stage"] == "face_detection")
        sha256 = sha256_of(shared_data / "models" / f"{model}.onnx")
        assert (call["model_id"], call["model"], call["sha256"]) == (model_id, model, sha256[:12])
        assert cluster.plan_result(uid)["server"]["face_detection"] > 0

    def called(node: str) -> int:
        return len([call for call in cluster.calls(node, uid) if call["stage"] == "face_detection"])

    for node in (OTHER, CLOUD, EDGE):
        others = [other for other in (EDGE, OTHER, CLOUD) if other != node]
        before = called(node)
        cluster.measured(uid, {}, {"face_detection": (2, node), "sizes": (0, EDGE)})
        begun = {other: called(other) for other in others}
        cluster.advances(uid)
        assert called(node) >= before + 10
        assert begun == {other: called(other) for other in others}


# --- cameras ------------------------------------------------------------------------------------------------
def test_a_camera_that_is_added_while_the_agent_runs_is_looked_at_until_it_is_removed(cluster: VideoCluster) -> None:
    place = f"/neptune/nodes/{EDGE}/cameras"

    def videos() -> dict[str, Any]:
        nodes = cluster.http.get(f"{VIDEO}/nodes").json()["nodes"]
        offered: dict[str, Any] = next(node["videos"] for node in nodes if node["node"] == EDGE)
        return offered

    clip = cluster.folder / "head.mp4"
    added = cluster.http.post(place, json={"type": "gate", "source": str(clip)}).json()
    until(videos, lambda offered: added["id"] in offered and "problem" not in offered[added["id"]])
    foreign = cluster.http.post(place, json={"type": "passwords", "source": "/etc/passwd"}).json()
    until(videos, lambda offered: "does not offer this source" in offered.get(foreign["id"], {}).get("problem", ""))
    uid = cluster.submit(one_stage("sizes"), video_id=int(added["id"]), policy="edge_only")
    cluster.advances(uid)
    assert cluster.http.delete(f"{place}/{added['id']}").status_code == 409
    (before,) = cluster.runners(EDGE)
    other = shutil.copy(clip, cluster.folder / "other.mp4")
    assert cluster.http.patch(f"{place}/{added['id']}", json={"source": str(other)}).status_code == 200
    until(lambda: cluster.runners(EDGE), lambda runners: [before] != runners != [])
    cluster.advances(uid)
    cluster.end_jobs()
    for camera in (added, foreign):
        until(lambda camera=camera: cluster.http.delete(f"{place}/{camera['id']}").status_code == 204)
    until(videos, lambda offered: set(offered) == {"0", "1"})


# --- pictures ---------------------------------------------------------------------------------------------
@contextmanager
def watched(cluster: VideoCluster, uid: str) -> Iterator[Iterator[bytes]]:
    """Its pictures as they come through the web."""
    with (
        httpx.Client(base_url=cluster.deployment.url, timeout=60, trust_env=False) as http,
        http.stream("GET", f"/user/video/{uid}") as answer,
    ):
        assert answer.status_code == 200
        reader, chunks = PartReader.of(answer.headers["content-type"]), answer.iter_raw()
        yield (picture for chunk in chunks for picture in reader.feed(chunk))


@pytest.mark.exhaustive  # the web's and the runner's tests do
def test_viewers_see_the_same_pictures_a_slow_one_slows_nobody_and_who_leaves_is_gone(cluster: VideoCluster) -> None:
    uid = cluster.submit(FACES, policy="edge_only")
    until(lambda: cluster.frames(uid))
    seen: list[list[bytes]] = [[], []]

    def look(mine: list[bytes]) -> None:
        with watched(cluster, uid) as pictures:
            while len(set(seen[0]) & set(seen[1])) < SAME_FRAMES:
                mine.append(next(pictures))

    with watched(cluster, uid) as slow:
        next(slow)
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(look, seen))
        cluster.advances(uid)
    for picture in set(seen[0]) & set(seen[1]):
        assert Image.open(io.BytesIO(picture)).convert("RGB").size == (480, 270)
    (runner,) = cluster.runners(EDGE)
    ports = {one.laddr.port for one in runner.net_connections() if one.status == "LISTEN"}
    health = f"http://{ADDRESSES[EDGE]}:{ports.pop()}/healthz"
    until(lambda: httpx.get(health, trust_env=False).json()["viewers"] == 0)


@pytest.mark.exhaustive  # the web's own tests show it
def test_a_job_whose_node_has_not_begun_it_has_no_picture_yet(cluster: VideoCluster) -> None:
    with cluster.silent(OTHER):
        uid = cluster.submit(one_stage("sizes"), node=OTHER, policy="edge_only")
        answer = cluster.http.get(f"/user/video/{uid}")
        assert (answer.status_code, answer.json()["status"]) == (503, 1)


# --- many at once ---------------------------------------------------------------------------------------
@pytest.mark.exhaustive
def test_fifty_jobs_at_once_are_taken_and_the_web_answers_meanwhile(cluster: VideoCluster) -> None:
    """On a node whose agent is silent for a moment, so that they are planned and not run."""
    answers: list[tuple[float, int]] = []
    is_over = threading.Event()

    def ask() -> None:
        with httpx.Client(base_url=cluster.deployment.url, timeout=60, trust_env=False) as http:
            while not is_over.wait(0.05):
                status = http.get("/healthz").status_code
                answers.append((time.time(), status))

    def submit(_: int) -> tuple[str, int]:
        body = cluster.body(one_stage("sizes"), node=OTHER, policy="edge_only")
        answer = httpx.post(f"{cluster.deployment.url}/user/submit_job", json=body, timeout=60, trust_env=False)
        return str(answer.json()["job_uid"]), answer.status_code

    with cluster.silent(OTHER), ThreadPoolExecutor(AT_ONCE + 1) as pool:
        begun = time.time()
        asking = pool.submit(ask)
        try:
            submitted = list(pool.map(submit, range(AT_ONCE)))
            listed = cluster.http.get(f"{VIDEO}/jobs", params={"limit": 200})
            assert listed.status_code == 200
            uids = [uid for uid, _ in submitted]
            until(lambda: all(cluster.job(uid)["plan"] for uid in uids))
            planned = time.time()
        finally:
            is_over.set()
        asking.result()
        cluster.cancel_jobs()
    assert {status for _, status in submitted} == {200}
    assert len(set(uids)) == AT_ONCE
    assert {status for _, status in answers} == {200}
    assert sum(begun < at < planned for at, _ in answers) > AT_ONCE // 10


# --- converted models -------------------------------------------------------------------------------------
@pytest.mark.exhaustive  # beside the whole suite the log sometimes has no call of the converted stage: cause unknown
def test_a_converted_model_finds_on_edge_and_cloud_what_the_original_finds(
    cluster: VideoCluster, tmp_path_factory: pytest.TempPathFactory, shared_data: Path
) -> None:
    folder = converted_faces(tmp_path_factory, shared_data)
    container = assemble(cluster.deployment.settings())
    try:
        files = {name: (folder / name).read_bytes() for name in ("out.onnx", "out.bie", "out.nef")}
        job = finished_job(container, container.settings.local_user, "faces", options=OPTIONS, files=files)
    finally:
        container.close()
    body = {"name": "faces-nef", "job_id": job.job_id, "artifact": "nef", "decoder": "ultraface"}
    assert cluster.http.post("/api/v2/models", json=body).status_code == 201
    graph = dag(
        {"original": [GENERATOR], "converted": [GENERATOR], "agreed": ["original", "converted"]},
        {
            "original": {"image": FRAME},
            "converted": {"image": FRAME},
            "agreed": {"one": "original.bbox", "other": "converted.bbox"},
        },
        "agreed.count_result",
    ) | {
        "stages": {
            "original": {"kind": "face_detection", "models": ["face_rfb_320"]},
            "converted": {"kind": "face_detection", "models": ["faces-nef"]},
            "agreed": {"kind": "agreed", "models": []},
        }
    }
    for node, policy in ((EDGE, "edge_only"), (CLOUD, "cloud_only")):
        uid = cluster.submit(graph, video_id=1, policy=policy, realtime=False, restart_policy="never")
        ended = until(lambda uid=uid: cluster.job(uid), lambda job: job["state"] == "DONE")
        assert ended["ending"] == "finished", ended["reason"]
        last = cluster.frames(uid)[-1]
        assert last["boxes"] > 100
        assert last["hits"] / last["boxes"] >= 0.95
        calls = until(
            lambda node=node, uid=uid: [c for c in cluster.calls(node, uid) if c["stage"].endswith("/converted")], bool
        )
        assert {call["model"] for call in calls} == {"faces-nef"}


# --- what goes away and comes back ------------------------------------------------------------------------
@pytest.mark.exhaustive  # the runner's own tests show it
def test_a_lost_cloud_is_stood_in_for_and_gets_its_stages_back(cluster: VideoCluster) -> None:
    uid = cluster.submit(SEEN, policy="cloud_only")
    until(lambda: len(cluster.calls(CLOUD, uid)) > 10)
    assert not cluster.calls(EDGE, uid)
    (host,) = cluster.workers(CLOUD, "app.edge.video.stage_host.host")
    cluster.agents[CLOUD].kill()
    host.kill()
    until(lambda: "degraded" in cluster.job(uid)["flags"])
    cluster.advances(uid)
    assert len(cluster.calls(EDGE, uid)) >= 10
    seen = len(cluster.calls(CLOUD, uid))
    cluster.agents[CLOUD].start()
    until(lambda: len(cluster.calls(CLOUD, uid)) > seen + 10)
    until(lambda: not cluster.job(uid)["flags"])
    assert {place["node"] for place in cluster.job(uid)["plan"]["flow_mapping"].values()} == {CLOUD}
    assert cluster.job(uid)["state"] == "EXEC"
    assert "can be reached again" in cluster.events_text(uid)


def test_without_the_web_the_edge_goes_on_and_no_result_is_lost_or_doubled(cluster: VideoCluster) -> None:
    """A silent agent at the same time: its node is offline and its jobs are flagged until it is heard again."""
    uid = cluster.submit(one_stage("pausing"), **FAST)
    quiet = cluster.submit(one_stage("pausing"), node=OTHER, **FAST)
    for each in (uid, quiet):
        until(lambda each=each: cluster.frames(each))
    plan, (runner,) = cluster.job(uid)["plan"], cluster.runners(EDGE)
    with cluster.silent(OTHER):
        cluster.kill_web()
        container = assemble(cluster.deployment.settings())
        try:
            known = container.video.jobs.get(container.settings.local_user, uid).n_loop
            of_quiet = container.video.jobs.get(container.settings.local_user, quiet).n_loop
        finally:
            container.close()
        calls, heard = len(cluster.calls(EDGE, uid)), cluster.frames_heard()
        until(lambda: len(cluster.calls(EDGE, uid)) > calls + 50 and cluster.waiting(EDGE) > 10)
        cluster.web()
        until(lambda: cluster.job(uid)["n_loop"] > known + 100)
        until(lambda: cluster.frames_heard() - heard == cluster.job(uid)["n_loop"] - known)
        until(lambda: cluster.job(uid)["plan"]["flow_mapping"] == plan["flow_mapping"])
        assert cluster.runners(EDGE) == [runner]
        until(lambda: "offline" in cluster.job(quiet)["flags"])
        assert cluster.job(quiet)["state"] == "EXEC"
        assert cluster.job(quiet)["n_loop"] == of_quiet
        until(lambda: "offline" not in cluster.job(uid)["flags"])
        status = cluster.http.get("/user/get_all_status").json()["data"]
        assert {node["node"]: node["online"] for node in status.values()} == {EDGE: True, OTHER: False}
    until(lambda: "offline" not in cluster.job(quiet)["flags"])
    until(lambda: cluster.job(quiet)["n_loop"] > of_quiet + 100)
    begun = known + of_quiet
    until(lambda: cluster.frames_heard() - heard == sum(cluster.job(each)["n_loop"] for each in (uid, quiet)) - begun)
