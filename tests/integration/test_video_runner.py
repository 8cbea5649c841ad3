"""The runner of a job between a stub of its agent and stubs of the hosts of the stages."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import mean
from typing import Any

import av
import httpx
import numpy as np
import pytest
from PIL import Image

from app.edge.video.runner import job
from app.edge.video.runner.stage_client import StageClient
from app.edge.video.stage_host.fair_queue import MOST_WAITING
from app.edge.video.work import RunnerWork
from app.edge.work_file import VARIABLE
from app.video.model.constraint import Constraint
from app.video.model.job import Mode, RestartPolicy
from app.video.model.plan import Encoder, Plan, Role, StagePlace
from app.video.model.stage_call import RAW, Call, Encoded
from tests.harness.until import until
from tests.harness.variants import exhaustive
from tests.harness.video.dags import REQUIREMENT
from tests.harness.video.runner import SECRET, UID, Deployment, StubHost, deployment, detected, plan_of, read_dag, video

GRAPH = read_dag(REQUIREMENT)
EDGE = "edge-1"
ROUNDED_S = 1e-5
"""Seconds are told with six digits."""


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Deployment]:
    with deployment(tmp_path) as deployed:
        yield deployed


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    return video(tmp_path / "clip.mp4")


def finished(made: Deployment, ending: str = "finished") -> str:
    """Waits for it; why it ended."""
    outcome = until(lambda: made.agent.ending)
    assert outcome[0] == ending, outcome
    return str(outcome[1])


def run(made: Deployment, clip: Path, **conf: Any) -> None:
    more = {name: conf.pop(name) for name in ("realtime", "restart_policy", "constraint", "dag") if name in conf}
    model_id = conf.pop("model_id", 0)
    graph = read_dag(more.get("dag", REQUIREMENT))
    made.start(made.content(plan_of(graph, EDGE, model_id=model_id, **conf), **more), clip)
    finished(made)


@pytest.fixture(scope="module")
def over(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """A job that has processed its video to the end."""
    folder = tmp_path_factory.mktemp("over")
    with deployment(folder) as deployed:
        run(deployed, video(folder / "clip.mp4"))
        yield deployed


def test_a_video_is_processed_frame_by_frame_to_its_end(over: Deployment) -> None:
    rows = over.agent.results
    assert [row["n_loop"] for row in rows] == list(range(1, 51))
    assert all(row["up"] == row["total"] == 1 and row["e2e"] > 0 and not row["tracked"] for row in rows)
    assert {(row["plan"], row["model_name"], row["model_version"]) for row in rows} == {(1, "stub", 4)}
    assert over.agent.plan_result(1)["frames"] == 50
    assert [report["seq"] for report in over.agent.reports] == list(range(1, len(over.agent.reports) + 1))


def test_both_stages_get_the_same_picture_which_is_sent_once(over: Deployment) -> None:
    first, second = (over.hosts[0].of(stage) for stage in ("face_detection", "face_alignment"))
    assert {call.frame: call.digest for call in first} == {call.frame: call.digest for call in second}
    assert {call.kind for call in first} == {"application/x-rgb"}
    assert {call.kind for call in second} == {"application/x-kept"}


def test_the_drawn_picture_is_never_fetched(over: Deployment) -> None:
    assert all("image" not in call.want and call.want for call in over.hosts[0].of("face_alignment"))


def test_a_host_that_has_forgotten_the_picture_is_sent_it_again(made: Deployment, clip: Path) -> None:
    made.hosts[0].forget_kept = True
    run(made, clip)
    assert {call.kind for call in made.hosts[0].of("face_alignment")} == {"application/x-rgb"}
    assert len(made.agent.results) == 50


@pytest.mark.parametrize(
    ("resolution", "size"), [("240p", (320, 180)), ("1080p", (640, 360)), *exhaustive(("360p", (480, 270)))]
)
def test_resolution_sets_the_size_and_never_enlarges(
    made: Deployment, tmp_path: Path, resolution: str, size: tuple[int, int]
) -> None:
    run(made, video(tmp_path / "large.mp4", frames=5, size=(640, 360)), resolution=resolution)
    assert {call.size for call in made.hosts[0].of("face_detection")} == {size}
    left = made.agent.results[0]["bbox"][0][0]
    assert left == pytest.approx(10 * 640 / size[0], abs=0.1), "boxes are in the source's pixels"


@pytest.mark.parametrize(("fps", "count"), [(12.5, 25), (60.0, 50), *exhaustive((5.0, 10), (25.0, 50))])
def test_fps_thins_out_by_the_videos_own_time(made: Deployment, clip: Path, fps: float, count: int) -> None:
    run(made, clip, fps=fps)
    assert abs(len(made.agent.processed) - count) <= count * 0.1


def test_nskip_leaves_frames_out_and_counts_them(made: Deployment, clip: Path) -> None:
    run(made, clip, nskip=4)
    assert [row["n_loop"] for row in made.agent.results] == list(range(1, 51, 5))
    result = made.agent.plan_result(1)
    assert (result["frames"], result["skipped"], result["tracked"]) == (10, 40, 0)


def test_ntracking_carries_the_boxes_on(made: Deployment, clip: Path) -> None:
    """The square moves two pixels a frame; its stage is asked for each fifth frame only."""
    made.hosts[0].answers["face_detection"] = lambda _: {"bbox": [[20, 60, 60, 100]], "prob": [0.9]}
    run(made, video(clip.with_name("short.mp4"), frames=5), ntracking=4)
    rows = made.agent.results
    assert [row["tracked"] for row in rows] == [False, True, True, True, True]
    assert len(made.hosts[0].of("face_detection")) == 1
    assert rows[4]["bbox"][0][0] == pytest.approx(28, abs=2.5)
    assert rows[4]["bbox"][0][1] == pytest.approx(60, abs=1.5)
    assert made.agent.plan_result(1)["tracked"] == 4


def test_model_id_is_the_one_that_is_called(made: Deployment, clip: Path) -> None:
    run(made, clip, model_id=2)
    assert {call.model_id for call in made.hosts[0].of("face_detection")} == {2}


def sent_to_cloud(tmp_path: Path, encoder: Encoder, lose: int = 0) -> tuple[float, set[str]]:
    """Bytes a frame, and the kinds of pictures."""
    edge, cloud = StubHost(EDGE), StubHost("cloud-1", role="cloud")
    cloud.lose_packets = lose
    with deployment(tmp_path / encoder, edge, cloud) as made:
        plan = plan_of(GRAPH, "cloud-1", encoder=encoder)
        made.start(made.content(plan), video(tmp_path / f"{encoder}.mp4"))
        finished(made)
        assert not edge.of("face_detection")
        assert len(made.agent.results) == 50
        result = made.agent.plan_result(1)
        assert result["up_mbps"]["cloud-1"] > 0
        return result["bytes_up"], {call.kind for call in cloud.of("face_detection")}


@pytest.mark.slow
def test_h264_takes_fewer_bytes_than_jpeg(tmp_path: Path) -> None:
    jpeg, h264 = (sent_to_cloud(tmp_path, encoder) for encoder in (Encoder.JPEG, Encoder.H264))
    assert jpeg[1] == {"image/jpeg"}
    assert h264[1] == {"video/h264"}
    assert h264[0] < jpeg[0] / 2


def test_a_lost_packet_is_answered_by_a_keyframe(tmp_path: Path) -> None:
    assert sent_to_cloud(tmp_path, Encoder.H264, lose=1)[1] == {"video/h264"}


def test_a_packet_follows_before_the_one_before_it_is_answered(tmp_path: Path, clip: Path) -> None:
    edge, cloud = StubHost(EDGE), StubHost("cloud-1", role="cloud")
    cloud.delays["face_detection"] = 0.1
    with deployment(tmp_path, edge, cloud) as made:
        made.start(made.content(plan_of(GRAPH, "cloud-1", encoder=Encoder.H264)), clip)
        finished(made)
    calls = sorted(cloud.of("face_detection"), key=lambda each: each.began)
    assert {each.kind for each in calls} == {"video/h264"}
    assert any(after.began < before.ended for before, after in pairwise(calls))


class CountingClient(StageClient):
    """begun: calls that wait for their place at a host, or had one."""

    begun = 0

    def _get_slot(self, url: str) -> threading.Semaphore:
        slot = super()._get_slot(url)
        with self._lock:
            self.begun += 1
        return slot


def test_to_a_host_go_no_more_calls_at_once_than_it_lets_wait() -> None:
    host, client, may_answer, count = StubHost(EDGE), CountingClient(), threading.Event(), 3 * MOST_WAITING
    held_calls = []

    def held(given: Mapping[str, Any]) -> Mapping[str, Any]:
        held_calls.append(given)
        may_answer.wait()
        return detected(given)

    host.answers["face_detection"] = held
    host.delays["face_detection"] = 0.05
    try:
        with ThreadPoolExecutor(count) as threads:
            call = Call("face_detection", pictures={"image": (Encoded(bytes(12), f"{RAW};width=2;height=2"),)})
            pending = [threads.submit(client.call, host.as_host, call, 600) for _ in range(count)]
            until(lambda: client.begun == count)
            all_begun = time.perf_counter()
            until(lambda: len(held_calls) == MOST_WAITING)
            held_s = time.perf_counter() - all_begun
            may_answer.set()
            answers = [each.result() for each in pending]
    finally:
        may_answer.set()
        client.close()
        host.stop()
    moments = [each.began for each in host.calls]
    assert max(sum(each.began <= at < each.ended for each in host.calls) for at in moments) <= MOST_WAITING
    assert sum(answer.queue_s >= held_s for answer in answers) >= count - MOST_WAITING
    assert all(answer.delay_s >= answer.queue_s + answer.server_s for answer in answers)


def test_the_delay_of_a_stage_is_its_mean_without_frames_left_out(made: Deployment, clip: Path) -> None:
    """No less than the host needed for it, and with the other no more than it took all in all."""
    made.hosts[0].delays = {"face_detection": 0.05}
    run(made, clip, nskip=1, ntracking=2)
    result, rows = made.agent.plan_result(1), made.agent.processed
    assert 0 < result["frames"] == len(rows) < len(made.agent.results)
    took = {
        stage: [call.ended - call.began for call in made.hosts[0].of(stage)]
        for stage in ("face_detection", "face_alignment")
    }
    assert {len(each) for each in took.values()} == {len(rows)}
    for stage, each in took.items():
        assert result["delay"][stage] >= mean(each), stage
    assert result["delay"]["face_detection"] >= 0.05
    assert sum(result["delay"].values()) <= mean(row["e2e"] for row in rows) + ROUNDED_S


FORKED = {
    "generator": "SingleFrameGenerator",
    "flow": {"left": ["SingleFrameGenerator"], "right": ["SingleFrameGenerator"], "merged": ["left", "right"]},
    "input": {
        "left": {"image": "SingleFrameGenerator.image"},
        "right": {"image": "SingleFrameGenerator.image"},
        "merged": {"image": "SingleFrameGenerator.image", "bbox": "left.bbox", "prob": "left.prob"},
        "Render": {"image": "merged.image", "count": "merged.count_result"},
    },
    "stages": {
        "left": {"kind": "face_detection", "models": ["a"]},
        "right": {"kind": "face_detection", "models": ["a"]},
        "merged": {"kind": "face_alignment", "models": ["b"]},
    },
}


def test_siblings_run_beside_each_other_and_a_merge_waits_for_all(made: Deployment, clip: Path) -> None:
    host = made.hosts[0]
    together = threading.Barrier(2, timeout=120)

    def met(_: Any) -> dict[str, Any]:
        together.wait()
        return {"bbox": [[1, 1, 9, 9]], "prob": [0.5]}

    host.answers |= {"left": met, "right": met, "merged": host.answers["face_alignment"]}
    host.delays = {"right": 0.02}
    graph = read_dag(FORKED)
    made.start(made.content(plan_of(graph, EDGE, nskip=9), dag=FORKED, realtime=True), clip)
    finished(made)
    rows = {call.frame: call for call in host.of("merged")}
    assert rows
    for stage in ("left", "right"):
        assert all(call.ended <= rows[call.frame].began for call in host.of(stage))


def test_a_stale_plan_is_ignored_and_a_newer_one_taken(made: Deployment, clip: Path) -> None:
    content = made.content(plan_of(GRAPH, EDGE, seq=5), realtime=True, restart_policy=RestartPolicy.EOS)
    runner = made.start(content, clip)
    until(lambda: made.agent.results)
    made.change(plan=plan_of(GRAPH, EDGE, seq=4, model_id=2), constraint=Constraint(hi=0.123))
    until(lambda: runner.hi_s == 0.123)
    assert runner.plan is not None
    assert runner.plan.seq == 5
    made.change(plan=plan_of(GRAPH, EDGE, seq=6, model_id=1))
    until(lambda: made.agent.plan_result(6).get("frames"))
    assert {call.model_id for call in made.hosts[0].of("face_detection")} == {0, 1}
    until(
        lambda: any(
            demand["user_constraint"]["delay"] == [-1.0, 0.123] or demand["user_constraint"]["delay"] == 0.123
            for demand in made.agent.demands
        )
    )


def test_no_frame_is_read_until_the_models_of_the_first_plan_are_open_and_it_goes_on_until_those_of_the_next_are(
    made: Deployment, clip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "PREPARE_S", 600.0)
    host = made.hosts[0]
    host.may_open.clear()
    runner = made.start(made.content(plan_of(GRAPH, EDGE), realtime=True, restart_policy=RestartPolicy.EOS), clip)
    until(lambda: len(host.prepared) == 2)
    assert set(host.prepared) == {("face_detection", 0), ("face_alignment", 0)}
    assert runner.plan is None and not host.calls
    host.may_open.set()
    until(lambda: made.agent.results)
    host.may_open.clear()
    made.change(plan=plan_of(GRAPH, EDGE, seq=2, model_id=1))
    until(lambda: len(host.prepared) == 4)
    assert set(host.prepared[2:]) == {("face_detection", 1), ("face_alignment", 1)}
    count = len(host.calls)
    until(lambda: len(host.calls) > count + 20)
    assert runner.plan is not None and runner.plan.seq == 1
    assert {call.model_id for call in host.of("face_detection")} == {0}
    host.may_open.set()
    until(lambda: made.agent.plan_result(2).get("frames"))
    # One that needs no other model begins at once, and nothing older after it.
    host.may_open.clear()
    made.change(plan=plan_of(GRAPH, EDGE, seq=3, model_id=2))
    until(lambda: len(host.prepared) == 6)
    made.change(plan=plan_of(GRAPH, EDGE, seq=4, model_id=1, resolution="240p"))
    until(lambda: made.agent.plan_result(4).get("frames"))
    host.may_open.set()
    assert len(host.prepared) == 6 and not made.agent.plan_result(3)
    # And one whose models are not open after a while begins nevertheless.
    monkeypatch.setattr(job, "PREPARE_S", 0.1)
    host.may_open.clear()
    made.change(plan=plan_of(GRAPH, EDGE, seq=5, model_id=2))
    until(lambda: made.agent.plan_result(5).get("frames"))
    host.may_open.set()


def test_without_a_plan_one_is_asked_for(made: Deployment, clip: Path) -> None:
    made.start(made.content(None), clip)
    until(lambda: made.agent.demands)
    assert made.agent.demands[0]["why"] == "start"
    assert made.agent.demands[0]["asked"] == 1
    assert made.agent.demands[0]["dag"]["generator"] == "SingleFrameGenerator"
    made.change(plan=plan_of(GRAPH, EDGE))
    finished(made)
    assert len(made.agent.results) == 50


def test_plans_are_asked_for_while_it_runs(made: Deployment, clip: Path) -> None:
    given = {"realtime": True, "restart_policy": RestartPolicy.EOS, "constraint": Constraint(hi=600.0)}
    made.start(made.content(plan_of(GRAPH, EDGE), **given), clip)
    until(lambda: any(demand["why"] == "period" for demand in made.agent.demands))
    demands = list(made.agent.demands)
    reasons = [demand["why"] for demand in demands]
    demand = demands[reasons.index("period")]
    assert set(reasons[: reasons.index("period")]) <= {"start", "source"}
    assert demand["last_plan_result"]["frames"] >= 10
    assert [each["asked"] for each in demands] == list(range(1, len(demands) + 1))
    assert demand["generator_output"]["objects"] == 1


@pytest.mark.slow
def test_late_frames_are_violations_and_lead_to_a_demand(made: Deployment, clip: Path) -> None:
    made.hosts[0].delays = {"face_detection": 0.3}
    given = {"realtime": True, "restart_policy": RestartPolicy.EOS, "constraint": Constraint(hi=0.1)}
    made.start(made.content(plan_of(GRAPH, EDGE), **given), clip)
    until(lambda: any(demand["why"] == "late" for demand in made.agent.demands))
    result = next(demand["last_plan_result"] for demand in made.agent.demands if demand["why"] == "late")
    assert result["violations"] == result["frames"] > 0
    assert result["e2e_p95"] >= result["e2e_p50"] > 0.1
    assert made.runner is not None
    until(lambda: made.runner and made.runner.queue.dropped)


def test_a_lost_cloud_is_stood_in_for_until_it_is_back(tmp_path: Path, clip: Path) -> None:
    edge, cloud = StubHost(EDGE), StubHost("cloud-1", role="cloud")
    with deployment(tmp_path, edge, cloud) as made:
        given = {"realtime": True, "restart_policy": RestartPolicy.EOS}
        made.start(made.content(plan_of(GRAPH, "cloud-1"), **given), clip)
        until(lambda: cloud.of("face_alignment"))
        assert not edge.of("face_detection")
        cloud.stop()
        until(lambda: edge.of("face_alignment") and "degraded" in made.agent.reports[-1]["flags"])
        until(lambda: any(demand["why"] == "fallback" for demand in made.agent.demands))
        until(lambda: made.agent.plan_result(1).get("fallbacks"))
        back = StubHost("cloud-1", role="cloud", port=cloud.port)
        made.hosts.append(back)
        until(lambda: back.of("face_alignment") and "degraded" not in made.agent.reports[-1]["flags"])
        until(lambda: "can be reached again" in made.agent.notes)
        assert made.agent.ending is None


def test_frames_wait_for_the_nodes_own_host(tmp_path: Path, clip: Path) -> None:
    """Of a job that processes each frame, none is lost while the host is started anew."""
    edge = StubHost(EDGE)
    with deployment(tmp_path, edge) as made:
        edge.delays = {"face_detection": 0.02}
        made.start(made.content(plan_of(GRAPH, EDGE)), clip)
        until(lambda: edge.of("face_alignment"))
        edge.stop()
        until(lambda: made.runner and made.runner.health()["waiting"] == 4)
        made.hosts.append(StubHost(EDGE, port=edge.port))
        finished(made)
        assert [row["n_loop"] for row in made.agent.results] == list(range(1, 51))


@pytest.mark.parametrize(
    ("policy", "again"), [("error", False), ("eos", True), *exhaustive(("never", False), ("always", True))]
)
def test_the_end_of_a_file(made: Deployment, clip: Path, policy: str, again: bool) -> None:
    made.start(made.content(plan_of(GRAPH, EDGE), restart_policy=RestartPolicy(policy)), clip)
    if again:
        until(lambda: len(made.agent.results) > 120)
        assert made.agent.ending is None
    else:
        assert "end" in finished(made)
    loops = [row["n_loop"] for row in made.agent.results]
    assert loops == sorted(set(loops))


@pytest.mark.parametrize(
    ("policy", "again"), [("eos", False), ("error", True), *exhaustive(("never", False), ("always", True))]
)
def test_a_video_that_is_none(made: Deployment, tmp_path: Path, policy: str, again: bool) -> None:
    path = tmp_path / "damaged.mp4"
    path.write_bytes(b"this is no video" * 100)
    made.start(made.content(plan_of(GRAPH, EDGE), restart_policy=RestartPolicy(policy)), path)
    if not again:
        assert "damaged.mp4" in finished(made, "error")
        return
    until(lambda: "opened again" in made.agent.notes)
    video(path)
    until(lambda: len(made.agent.results) >= 50)


def test_damaged_frames_in_a_video_are_left_out(made: Deployment, clip: Path) -> None:
    data = bytearray(clip.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 3000] = b"\x00" * 3000
    clip.write_bytes(data)
    made.start(made.content(plan_of(GRAPH, EDGE)), clip)
    until(lambda: made.agent.ending)
    assert 20 <= len(made.agent.results) <= 50


def test_a_stage_that_fails_again_and_again_ends_the_job(made: Deployment, clip: Path) -> None:
    made.hosts[0].problems = {"face_alignment": (500, "STAGE_FAILED")}
    made.start(made.content(plan_of(GRAPH, EDGE)), clip)
    assert "face_alignment" in finished(made, "error")
    assert "Frames are dropped: face_alignment" in made.agent.notes


def test_a_stage_that_fails_now_and_then_costs_its_frames_only(made: Deployment, clip: Path) -> None:
    count = iter(range(1000))
    good = made.hosts[0].answers["face_detection"]
    made.hosts[0].answers["face_detection"] = lambda given: {} if next(count) % 5 == 4 else good(given)
    made.start(made.content(plan_of(GRAPH, EDGE)), clip)
    finished(made)
    assert 38 <= len(made.agent.results) <= 42


def test_a_stage_that_fails_with_a_restart_policy_goes_on(made: Deployment, clip: Path) -> None:
    made.hosts[0].problems = {"face_detection": (504, "STAGE_HUNG")}
    made.start(made.content(plan_of(GRAPH, EDGE), restart_policy=RestartPolicy.ALWAYS), clip)
    until(lambda: "It goes on although" in made.agent.notes)
    made.hosts[0].problems = {}
    until(lambda: made.agent.results)


def test_a_result_that_cannot_be_shown_ends_nothing(made: Deployment, clip: Path) -> None:
    """Render's number is none, and what is drawn is no pose."""
    made.hosts[0].answers["face_alignment"] = lambda _: {"head_pose": [["x"]], "count_result": 7}
    run(made, clip)
    assert [row["n_loop"] for row in made.agent.results] == list(range(1, 51))


def test_an_agent_that_is_away_is_told_all_later_and_nothing_twice(made: Deployment, clip: Path) -> None:
    made.agent.away = True
    made.start(made.content(plan_of(GRAPH, EDGE)), clip)
    until(lambda: made.runner and made.runner.metrics.processed_in_all == 50)
    made.agent.away = False
    finished(made)
    assert [row["n_loop"] for row in made.agent.results] == list(range(1, 51))


@pytest.mark.slow
def test_numbers_rise_over_a_restart(tmp_path: Path, clip: Path) -> None:
    seen = []
    for _ in range(2):
        with deployment(tmp_path) as made:
            given = {"realtime": True, "restart_policy": RestartPolicy.EOS}
            made.start(made.content(plan_of(GRAPH, EDGE), **given), clip)
            until(lambda made=made: len(made.agent.reports) >= 2 and made.agent.demands)
            made.stop()
            seen.append((made.agent.results, made.agent.reports, made.agent.demands))
    for index, name in ((0, "n_loop"), (1, "seq"), (2, "asked")):
        first, second = ([each[name] for each in told[index]] for told in seen)
        assert first[-1] < second[0], name
        assert first + second == sorted(set(first + second)), name
    assert {track_id for told in seen for row in told[0] for track_id in row["ids"]} == {1}, "it is the same face"


def test_a_job_that_was_over_says_so_again_and_does_nothing(tmp_path: Path, clip: Path) -> None:
    with deployment(tmp_path) as made:
        run(made, clip)
    with deployment(tmp_path) as made:
        made.start(made.content(plan_of(GRAPH, EDGE)), clip)
        finished(made)
        assert not made.hosts[0].calls


def viewed(url: str, is_enough: Callable[[], bool], seen: list[bytes]) -> None:
    """Whole JPEGs of the stream."""
    with httpx.stream("GET", url, headers={"authorization": f"Bearer {SECRET}"}, timeout=120) as response:
        assert response.headers["content-type"].startswith("multipart/x-mixed-replace; boundary=")
        data = b""
        for piece in response.iter_raw():
            data += piece
            while (part := cut(data)) is not None:
                jpeg, data = part
                seen.append(jpeg)
                if is_enough():
                    return


def cut(data: bytes) -> tuple[bytes, bytes] | None:
    """The first part, and what follows it."""
    head, blank, rest = data.partition(b"\r\n\r\n")
    length = next((int(line.partition(b":")[2]) for line in head.splitlines() if b"Content-Length" in line), None)
    if not blank or length is None or len(rest) < length + 2:
        return None
    return rest[:length], rest[length + 2 :]


def test_two_viewers_see_the_same_frames_and_a_leaver_frees_its_place(made: Deployment, clip: Path) -> None:
    given = {"realtime": True, "restart_policy": RestartPolicy.EOS}
    runner = made.start(made.content(plan_of(GRAPH, EDGE, fps=10), **given), clip)
    url = f"{made.serve()}/user/video/{UID}"
    until(lambda: runner.renderer.has_scene)
    seen: tuple[list[bytes], list[bytes]] = [], []
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda each: viewed(url, lambda: len(set(seen[0]) & set(seen[1])) >= 5, each), seen))
    for jpeg in (*seen[0], *seen[1]):
        assert Image.open(io.BytesIO(jpeg)).size == (320, 180)
    until(lambda: runner.live.viewers == 0)


def test_a_slow_viewer_misses_pictures_and_slows_nobody(made: Deployment, clip: Path) -> None:
    given = {"realtime": True, "restart_policy": RestartPolicy.EOS}
    runner = made.start(made.content(plan_of(GRAPH, EDGE), **given), clip)
    url = f"{made.serve()}/user/video/{UID}"
    until(lambda: runner.renderer.has_scene)
    with httpx.stream("GET", url, headers={"authorization": f"Bearer {SECRET}"}, timeout=120) as slow:
        pieces = slow.iter_raw()
        next(pieces)
        until(lambda: runner.live.viewers == 1)
        before = runner.metrics.processed_in_all
        seen: list[bytes] = []
        viewed(url, lambda: len(seen) == 30, seen)
        assert runner.metrics.processed_in_all > before + 20
    until(lambda: runner.live.viewers == 0)


def test_the_picture_is_for_those_who_know_the_secret_and_when_there_is_one(made: Deployment, clip: Path) -> None:
    made.start(made.content(None), clip)
    url = made.serve()
    assert httpx.get(f"{url}/user/video/{UID}").status_code == 401
    headers = {"authorization": f"Bearer {SECRET}"}
    early = httpx.get(f"{url}/user/video/{UID}", headers=headers)
    assert (early.status_code, early.json()["status"]) == (503, 1)
    assert httpx.get(f"{url}/user/video/another", headers=headers).status_code == 404
    assert httpx.get(f"{url}/healthz").json()["job_uid"] == UID


def test_when_it_is_over_its_last_picture_stays(over: Deployment) -> None:
    seen: list[bytes] = []
    viewed(f"{over.serve()}/user/video/{UID}", lambda: len(seen) == 1, seen)
    assert Image.open(io.BytesIO(seen[0])).size == (320, 180)


def test_snapshots_are_at_most_640_wide(made: Deployment, tmp_path: Path) -> None:
    run(made, video(tmp_path / "wide.mp4", frames=5, size=(1280, 720)))
    until(lambda: made.agent.snapshots)
    assert Image.open(io.BytesIO(made.agent.snapshots[0])).size == (640, 360)


def test_quality_is_that_of_golden_frames_on_the_cloud(tmp_path: Path, clip: Path) -> None:
    edge, cloud = StubHost(EDGE), StubHost("cloud-1", role="cloud")
    edge.answers["face_detection"] = lambda _: {
        "bbox": [[10, 10, 40, 50], [200, 10, 240, 60]],
        "prob": [0.9, 0.8],
    }
    edge.answers["face_alignment"] = lambda given: {
        "head_pose": [[4.0, 5.0, 6.0]] * len(given["bbox"]),
        "count_result": {"up": 0, "total": 2},
    }
    with deployment(tmp_path, edge, cloud) as made:
        given = {"realtime": True, "restart_policy": RestartPolicy.EOS}
        made.start(made.content(plan_of(GRAPH, EDGE, model_id=2), **given), clip)
        result = until(lambda: made.agent.plan_result(1), lambda result: result.get("iou") and result.get("mae"))
        assert result["iou"] == {"face_detection": pytest.approx(2 / 3, abs=0.001)}
        assert result["mae"] == {"face_alignment": pytest.approx(3.0)}
        assert {call.model_id for call in cloud.calls} == {0}
        assert set(cloud.prepared) == {("face_detection", 0), ("face_alignment", 0)}, "opened before the frame comes"


def test_clips_hold_the_frames_of_their_cycle(made: Deployment, clip: Path) -> None:
    dag = {
        "generator": "ClipGenerator",
        "flow": ["ClipGenerator", "motion"],
        "input": {
            "motion": {"clip": "ClipGenerator.clip"},
            "Render": {"image": "ClipGenerator.image", "count": "motion.count_result"},
        },
    }
    made.hosts[0].answers["motion"] = lambda given: {"prob": [], "count_result": {"pictures": len(given["clip"])}}
    run(made, clip, dag=dag, ntracking=3, nskip=1)
    assert {row["pictures"] for row in made.agent.processed} == {4}
    assert len(made.agent.processed) == 10


def test_profiling_measures_each_stage_model_and_size(tmp_path: Path, clip: Path) -> None:
    edge, cloud = StubHost(EDGE), StubHost("cloud-1", role="cloud")
    edge.delays = {"face_detection": 0.01}
    with deployment(tmp_path, edge, cloud) as made:
        large = video(tmp_path / "large.mp4", frames=30, size=(640, 360))
        made.start(made.content(None, mode=Mode.PROFILE), large)
        finished(made)
        reports = {report["seq"]: report for report in made.agent.reports}  # one without an answer is sent again
        rows = [row for report in reports.values() for row in report.get("profile", ())]
        measured = {(row["node"], row["stage"], row["model_id"], row["resolution"]) for row in rows}
        assert len(measured) == len(rows) == 2 * 2 * 3 * 3
        assert {row["resolution"] for row in rows} == {"240p", "360p", "480p"}
        assert all(row["delay_s"] >= 0.01 for row in rows if (row["node"], row["stage"]) == (EDGE, "face_detection"))
        sizes = {row["resolution"]: row["bytes"] for row in rows}
        assert sizes["240p"] < sizes["360p"] < sizes["480p"]
        assert made.agent.reports[-1]["progress"] == 1.0


@pytest.mark.slow
def test_the_process_runs_and_ends_by_a_signal(made: Deployment, clip: Path, tmp_path: Path) -> None:
    content = made.content(plan_of(GRAPH, EDGE), realtime=True, restart_policy=RestartPolicy.EOS)
    path = tmp_path / "work.json"
    work = RunnerWork(
        content,
        str(clip),
        host="127.0.0.1",
        port=0,
        folder=tmp_path / "own",
        agent_url=made.agent.url,
        node=EDGE,
    )
    work.write(path)
    assert path.stat().st_mode & 0o077 == 0
    process = subprocess.Popen(
        [sys.executable, "-m", "app.edge.video.runner.main"], env={**os.environ, VARIABLE: str(path)}
    )
    try:
        until(lambda: len(made.agent.results) > 20)
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) in (0, -signal.SIGTERM)
    finally:
        process.kill()
        process.wait()


def test_a_plan_that_names_no_host_is_carried_out_here(made: Deployment, clip: Path) -> None:
    places = {stage: StagePlace(0, Role.CLOUD, "10.0.0.9", "gone") for stage in GRAPH.stages}
    plan: Plan = replace(plan_of(GRAPH, EDGE), flow_mapping=places)
    made.start(made.content(plan), clip)
    finished(made)
    assert made.agent.plan_result(1)["fallbacks"] == 100
    assert "degraded" in made.agent.reports[-1]["flags"]
    assert made.agent.notes.count("The stages of gone cannot be called from here: they run on edge-1.") == 1


def test_of_a_region_only_that_part_is_sent_and_boxes_are_those_of_the_whole(made: Deployment, tmp_path: Path) -> None:
    dag = {**REQUIREMENT, "gate": {"region": "0.5,0.5,1,1"}}
    run(made, video(tmp_path / "large.mp4", frames=5, size=(640, 360)), dag=dag, resolution="1080p")
    assert {call.size for call in made.hosts[0].of("face_detection")} == {(320, 180)}
    row = made.agent.results[0]
    assert (row["size"], row["bbox"][0][:2]) == ([640, 360], [330.0, 190.0])


def test_the_drawn_picture_of_a_recorded_job_can_be_had_as_a_clip(made: Deployment, clip: Path) -> None:
    dag = {**REQUIREMENT, "recording": {"hours": 1, "width": 160}}
    made.start(made.content(plan_of(GRAPH, EDGE), dag=dag, realtime=True, restart_policy=RestartPolicy.EOS), clip)
    url, secret = f"{made.serve()}/user/video/{UID}", {"Authorization": f"Bearer {SECRET}"}
    assert httpx.get(f"{url}/clip").status_code == httpx.get(f"{url}/recording").status_code == 401
    with httpx.Client(headers=secret, trust_env=False) as client:
        state = until(lambda: client.get(f"{url}/recording").json(), lambda state: state["begins_s"] is not None)
        begins_s = state["begins_s"]
        until(lambda: client.get(f"{url}/recording").json()["ends_s"] > begins_s + 1)
        answer = client.get(f"{url}/clip", params={"begins_s": begins_s, "ends_s": begins_s + 10})
        assert (answer.status_code, answer.headers["content-type"]) == (200, "video/mp4")
        with av.open(io.BytesIO(answer.content)) as container:
            pictures = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
        assert pictures[0].shape[1] == 160
        assert max(int(np.ptp(picture)) for picture in pictures) > 50, "boxes are drawn"
        gone = client.get(f"{url}/clip", params={"begins_s": begins_s - 100, "ends_s": begins_s - 90})
        assert gone.status_code == 404
        for begin, end in ((begins_s, begins_s), (begins_s, begins_s + 10_000), ("nan", 5)):
            assert client.get(f"{url}/clip", params={"begins_s": begin, "ends_s": end}).status_code == 400
    made.stop()
    assert list((made.folder / "recording").glob("*.mp4"))


def test_a_job_that_runs_is_recorded_from_when_it_is_demanded_until_it_is_no_longer(
    made: Deployment, clip: Path
) -> None:
    made.start(made.content(plan_of(GRAPH, EDGE), realtime=True, restart_policy=RestartPolicy.EOS), clip)
    url, secret = f"{made.serve()}/user/video/{UID}", {"Authorization": f"Bearer {SECRET}"}
    until(lambda: made.agent.results)
    with httpx.Client(headers=secret, trust_env=False) as client:
        assert client.get(f"{url}/recording").status_code == 404
        made.change(dag=read_dag({**REQUIREMENT, "recording": {"hours": 1, "width": 160}}))
        answer = until(lambda: client.get(f"{url}/recording"), lambda answer: answer.status_code == 200)
        begins_s = until(lambda: client.get(f"{url}/recording").json()["begins_s"])
        until(lambda: client.get(f"{url}/recording").json()["ends_s"] > begins_s)
        answer = client.get(f"{url}/clip", params={"begins_s": begins_s, "ends_s": begins_s + 10})
        assert answer.headers["content-type"] == "video/mp4"
        made.change(dag=read_dag(REQUIREMENT))
        until(lambda: client.get(f"{url}/recording").status_code == 404)
    until(lambda: not (made.folder / "recording").exists())


def test_of_a_job_without_a_recording_there_is_no_clip(over: Deployment) -> None:
    answer = httpx.get(
        f"{over.serve()}/user/video/{UID}/clip", headers={"Authorization": f"Bearer {SECRET}"}, trust_env=False
    )
    assert answer.status_code == 404


def test_still_frames_are_not_sent_and_their_number_is_said(made: Deployment, tmp_path: Path) -> None:
    dag = {**REQUIREMENT, "gate": {"motion": 0.9}}
    run(made, video(tmp_path / "clip.mp4", frames=50), dag=dag)
    result = made.agent.plan_result(1)
    assert result["still"] + result["frames"] == 50
    assert len(made.hosts[0].of("face_detection")) == result["frames"] < 5
