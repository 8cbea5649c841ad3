"""Parts of the runner, each alone."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from app.edge.video.runner.checkpoint import CheckpointFile
from app.edge.video.runner.frame_context import DagRequirements, FrameFailed, FrameOutcome, Timing, needs_of
from app.edge.video.runner.frame_queues import ConcurrencyLimit, FrameQueue, ReorderBuffer
from app.edge.video.runner.frame_transport import OutgoingPictures
from app.edge.video.runner.frame_workers import MOST_IN_A_ROW, MOST_S, FailureBudget
from app.edge.video.runner.plan_metrics import FrameCounts, PlanMetrics
from app.edge.video.runner.quality import f1, mae, pairs, score_stage
from app.edge.video.runner.reporter import PlanRequester
from app.edge.video.runner.resize import fit_size
from app.edge.video.runner.stage_router import StageRouter
from app.edge.video.stages.registry import kinds
from app.edge.video.work import RunnerWork, WatchedWork
from app.edge.work_file import WorkMissing
from app.video.model.dag import Reference, read_dag
from app.video.model.job import StageHost
from app.video.model.kinds import Metric
from app.video.model.plan import Plan, Role, StagePlace, VideoConf
from tests.harness.video.dags import REQUIREMENT

HOSTS = [
    StageHost(node, role, ip, f"http://{ip}:1", "s")
    for node, role, ip in (
        ("edge-1", "host", "10.0.0.1"),
        ("cloud-1", "cloud", "10.0.0.2"),
    )
]


def needs() -> DagRequirements:
    dag = read_dag(REQUIREMENT)
    return needs_of(dag, {stage: kinds()[stage] for stage in dag.stages})


def test_a_leaky_queue_drops_its_oldest() -> None:
    queue: FrameQueue[int] = FrameQueue(leaky=True)
    for number in range(6):
        queue.put(number)
    queue.close()
    assert [queue.take() for _ in range(5)] == [2, 3, 4, 5, None]
    assert queue.dropped == 2


def test_what_is_outdated_is_dropped_from_a_leaky_queue_except_for_its_newest() -> None:
    live, whole = FrameQueue[int](leaky=True), FrameQueue[int](leaky=False)
    for queue in (live, whole):
        for number in range(4):
            queue.put(number)
    assert [live.take(lambda number: number < 2), live.take(lambda _: True)] == [2, 3]
    assert live.dropped == 2
    assert [whole.take(lambda _: True), whole.dropped] == [0, 0]


def test_a_queue_that_is_not_leaky_makes_its_giver_wait() -> None:
    queue: FrameQueue[int] = FrameQueue(leaky=False, room=1)
    giver = threading.Thread(target=lambda: [queue.put(number) for number in range(50)] and queue.close())
    giver.start()
    assert list(iter(queue.take, None)) == list(range(50))
    giver.join()
    assert queue.dropped == 0


def test_results_are_given_in_the_order_of_their_tickets() -> None:
    given: list[str] = []
    in_order = ReorderBuffer(given.append)
    first, second, third = (in_order.ticket() for _ in range(3))
    in_order.settle(third, "c")
    in_order.settle(second, "b")
    assert given == []
    in_order.settle(first, "a")
    assert given == ["a", "b", "c"]


def test_a_live_job_works_on_fewer_frames_where_they_wait_for_hosts() -> None:
    live, whole = ConcurrencyLimit(realtime=True), ConcurrencyLimit(realtime=False)
    for _ in range(40):
        live.measured(0.5, 1.0)
        whole.measured(0.5, 1.0)
    assert (live.limit, whole.limit) == (ConcurrencyLimit.LEAST, ConcurrencyLimit.MOST)
    for _ in range(60):
        live.measured(0.0, 1.0)
    assert live.limit == ConcurrencyLimit.MOST


@pytest.mark.parametrize(
    ("source", "resolution", "even", "size"),
    [
        ((1920, 1080), "480p", False, (640, 360)),
        ((1920, 1080), "1080p", False, (1920, 1080)),
        ((480, 270), "1080p", False, (480, 270)),
        ((101, 75), "720p", True, (100, 74)),
        ((1000, 10000), "240p", False, (24, 240)),
    ],
)
def test_a_picture_keeps_its_shape_and_is_never_enlarged(
    source: tuple[int, int], resolution: str, even: bool, size: tuple[int, int]
) -> None:
    assert fit_size(source, resolution, even=even) == size


def test_only_what_is_read_is_asked_for() -> None:
    requirements = needs()
    assert requirements.outputs == {
        "face_detection": {"bbox", "prob"},
        "face_alignment": {"head_pose", "count_result"},
    }
    assert requirements.drawn >= {"face_alignment"}
    assert requirements.tracked == "face_detection"


def test_work_survives_its_file_and_a_damaged_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "work.json"
    path.write_text('{"content": {}}')
    with pytest.raises(WorkMissing, match="does not say"):
        RunnerWork.read(path)


def test_work_that_cannot_be_read_leaves_the_last_in_force(tmp_path: Path) -> None:
    path = tmp_path / "work.json"
    path.write_text("{}")
    watched = WatchedWork(path, RunnerWork.read)
    assert watched.changed() is None
    path.write_text("no JSON at all")
    assert watched.changed() is None
    path.unlink()
    assert watched.changed() is None


def test_what_is_kept_rises_also_when_its_file_is_damaged(tmp_path: Path) -> None:
    checkpoint = CheckpointFile(tmp_path)
    checkpoint.state.seq, checkpoint.state.n_loop = 5, 77
    checkpoint.write()
    assert CheckpointFile(tmp_path).state == checkpoint.state
    (tmp_path / "runner.json").write_text('{"seq": ')
    again = CheckpointFile(tmp_path).state
    assert again.seq > 5
    assert again.n_loop > 77


def test_a_stage_may_fail_for_a_while() -> None:
    now = [0.0]
    notes: list[str] = []
    faults = FailureBudget(notes.append, lambda: now[0])
    failure = FrameFailed("s", "no")
    assert not any(faults.failed(failure) for _ in range(MOST_IN_A_ROW - 1))
    faults.good()
    assert not any(faults.failed(failure) for _ in range(MOST_IN_A_ROW - 1))
    assert "stage s" in faults.failed(failure)
    assert faults.failed(failure) == ""
    now[0] += MOST_S
    assert "2 frames in a row" in faults.failed(failure)
    assert notes == ["Frames are dropped: s: no"]
    away = FrameFailed("s", "away", is_fault=False)
    assert not any(faults.failed(away) for _ in range(100))


def outcome(seq: int, delay_s: float) -> FrameOutcome:
    place = StagePlace(0, Role.CLOUD, "10.0.0.2", "cloud-1")
    timing = Timing("cloud-1", delay_s, delay_s / 2, 0.0, way_s=0.1, sent=12_500)
    return FrameOutcome(Plan(seq, VideoConf(), {"s": place}), (4, 4), {}, {"s": timing})


def test_means_are_of_the_plan_in_force_since_it_was_last_asked_for() -> None:
    now, left = [0.0], [FrameCounts()]
    metrics = PlanMetrics(lambda: left[0], lambda: now[0])
    metrics.begin(2)
    assert metrics.result() is None
    metrics.processed(outcome(1, 9.0), 9.0, 0.5)
    for delay in (0.1, 0.3):
        now[0] += 0.5
        metrics.processed(outcome(2, delay), delay, 0.2)
    left[0] = FrameCounts(skipped=4, dropped=1)
    metrics.compared(Metric.IOU, "s", 0.5, 2)
    metrics.compared(Metric.IOU, "s", 0.0, 1)
    result = metrics.result()
    assert result is not None
    assert result["delay"] == {"s": pytest.approx(0.2)}
    assert result["server"] == {"s": pytest.approx(0.1)}
    assert (result["frames"], result["skipped"], result["dropped"], result["violations"]) == (2, 4, 1, 1)
    assert result["fps"] == pytest.approx(2.0)
    assert result["up_mbps"] == {"cloud-1": pytest.approx(1.0)}
    assert result["bytes_up"] == 12_500
    assert result["iou"] == {"s": 0.5}
    assert metrics.late_in_row == 1
    metrics.processed(outcome(2, 0.1), 0.1, 0.2)
    assert metrics.late_in_row == 0
    metrics.requested()
    assert metrics.result() is None


def test_the_rate_is_of_frames_that_follow_each_other_however_soon_after_a_request_they_come() -> None:
    now = [0.0]
    metrics = PlanMetrics(FrameCounts, lambda: now[0])

    def measure(*processed: float, seq: int = 1, waited_s: float = 0.0, until: float = 0.0) -> float | None:
        for at in processed:
            now[0] = at
            metrics.processed(outcome(seq, 0.1), waited_s, 0.5)
        now[0] = max(now[0], until)
        result = metrics.result()
        assert result is not None
        return result.get("fps")

    metrics.begin(1)
    assert measure(10.0) is None, "one frame has no rate"
    assert measure(10.1, 10.2) is None, "too short a time"
    assert measure(10.3, 10.4, 10.5) == pytest.approx(10)
    now[0] = 10.59
    metrics.requested()
    assert measure(10.6) == pytest.approx(10), "the rate before, until there is a new one"
    assert measure(10.8, 11.0) == pytest.approx(6)
    metrics.begin(2)
    metrics.processed(outcome(1, 0.1), 0.1, 0.5)
    assert measure(11.2, seq=2) is None, "of another plan"
    assert measure(11.4, 11.6, seq=2) == pytest.approx(5)
    assert measure(seq=2, until=15.0) == pytest.approx(3 / 4), "none has come for a while"
    metrics.pause()
    metrics.resume()
    assert measure(60.4, waited_s=0.4, seq=2) is None
    assert measure(60.41, 60.42, 60.5, seq=2) == pytest.approx(6), "those that waited for the first one"


def test_no_more_frames_are_counted_a_second_than_the_plan_takes() -> None:
    """Two completions follow more quickly than the source gives frames when the first of them was late."""
    now = [0.0]
    metrics = PlanMetrics(FrameCounts, lambda: now[0])
    metrics.begin(1, lambda: 12.0)
    for at in (0.05, *(number / 12 for number in range(1, 13))):
        now[0] = at
        metrics.processed(outcome(1, 0.0), 0.0, 0.5)
    result = metrics.result()
    assert result is not None and result["fps"] == 12.0
    source_fps = [24.0]
    metrics.begin(3, lambda: source_fps[0])
    for number in range(1, 41):  # what the server of a stream had kept comes at once
        now[0] = 2 + number / 40
        metrics.processed(outcome(3, 0.0), 0.0, 0.5)
    source_fps[0] = 12.0
    result = metrics.result()
    assert result is not None and result["fps"] == 12.0, "the source gives no more, as it turned out"
    metrics.begin(2)
    for number in range(1, 13):
        now[0] = 3 + number / 24
        metrics.processed(outcome(2, 0.0), 0.0, 0.5)
    result = metrics.result()
    assert result is not None and result["fps"] == pytest.approx(24), "as fast as possible"


def test_a_plan_is_asked_for_when_there_is_reason_to() -> None:
    now, requests = [0.0], list[str]()
    asker = PlanRequester(lambda why: not requests.append(why), lambda: now[0])

    def step(seconds: float, *, has_plan: bool = True, frames: int = 0, late: int = 0, more: bool = False) -> list[str]:
        requests.clear()
        now[0] += seconds
        asker.step(has_plan=has_plan, frames=frames, late=late, is_beyond_source=more)
        return list(requests)

    assert step(0, has_plan=False) == ["start"]
    assert step(4.9, has_plan=False) == []
    assert step(0.2, has_plan=False) == ["start"]
    assert step(0.5, frames=10) == []
    assert step(0.6, frames=10) == ["period"]
    assert step(1.1, more=True) == ["source"], "no frame has to be processed for that"
    assert step(1.1, more=True) == []
    assert step(1.1, more=True, late=3) == ["late"], "an agent that does not correct it keeps nothing else from coming"
    assert step(1.1) == []
    assert step(1.1, more=True) == ["source"]
    assert step(5, frames=9, late=2) == []
    assert step(0.1, frames=9, late=3) == ["late"], "few frames are enough when all of them are late"
    assert step(0.9, frames=3, late=3) == []
    asker.fell_back()
    assert step(1.1) == ["fallback"]
    assert step(1.1) == []


def test_a_stage_runs_at_home_while_its_host_is_away() -> None:
    there, changes = [False], list[tuple[str, bool]]()
    routes = StageRouter("edge-1", HOSTS, lambda _: there[0], lambda node, is_there: changes.append((node, is_there)))
    cloud = StagePlace(0, Role.CLOUD, "10.0.0.2")
    route = routes.route(cloud)
    assert route is not None
    assert (route.host.node, route.is_planned) == ("cloud-1", True)
    routes.failed(HOSTS[1], "it is gone")
    routes.failed(HOSTS[1], "it is gone")
    routes.probe()
    assert (chosen := routes.route(cloud)) is not None
    assert (chosen.host.node, chosen.is_planned) == ("edge-1", False)
    there[0] = True
    routes.probe()
    assert (chosen := routes.route(cloud)) is not None
    assert chosen.is_planned
    assert changes == [("cloud-1", False), ("cloud-1", True)]
    routes.failed(HOSTS[0], "there is no other")
    assert not routes.away


def test_a_host_that_comes_back_at_another_address_is_told_to_be_there() -> None:
    changes = list[tuple[str, bool]]()
    routes = StageRouter("edge-1", HOSTS, lambda _: False, lambda node, is_there: changes.append((node, is_there)))
    for port in (5501, 5502):
        routes.failed(routes.hosts[1], "it is gone")
        routes.update(routes.hosts)
        assert changes == [("cloud-1", False)]
        if port == 5502:
            routes.update(HOSTS[:1])
        routes.update([HOSTS[0], replace(HOSTS[1], url=f"http://10.0.0.2:{port}")])
        assert changes == [("cloud-1", False), ("cloud-1", True)]
        assert not routes.away
        changes.clear()


def test_a_host_that_answers_and_fails_again_and_again_rests() -> None:
    now, requests = [0.0], list[str]()
    routes = StageRouter("edge-1", HOSTS, lambda host: not requests.append(host.node), clock=lambda: now[0])

    def seconds_until_asked() -> float:
        routes.failed(HOSTS[1], "it does not answer")
        requests.clear()
        began = now[0]
        while True:
            routes.probe()
            if requests:
                return now[0] - began
            now[0] += 0.5

    assert [seconds_until_asked() for _ in range(8)] == [0, 1, 2, 4, 8, 16, 30, 30]
    routes.went_well(HOSTS[1])
    assert seconds_until_asked() == 0


def test_f1_is_of_boxes_that_overlap_by_half() -> None:
    one, near, far = [0, 0, 10, 10], [2, 0, 12, 10], [8, 8, 18, 18]
    assert f1([], []) == 1.0
    assert f1([one], []) == 0.0
    assert f1([one], [near]) == 1.0
    assert f1([one], [far]) == 0.0
    assert f1([one, far], [near]) == pytest.approx(2 / 3)
    assert pairs([one, near], [one]) == [(0, 0)]


def test_poses_are_compared_where_their_boxes_belong_together() -> None:
    bbox, pose = Reference("face_detection", "bbox"), Reference("face_alignment", "head_pose")
    outcomes = {bbox: [[0, 0, 5, 5], [50, 50, 60, 60]], pose: [[1, 1, 1], [9, 9, 9]]}
    golden = {bbox: [[0, 0, 10, 10]], pose: [[1, 4, 1]]}
    assert score_stage(needs(), "face_alignment", outcomes, golden, (2.0, 2.0)) == (Metric.MAE, pytest.approx(1.0))
    assert score_stage(needs(), "face_detection", outcomes, golden, (2.0, 2.0)) == (Metric.IOU, pytest.approx(2 / 3))
    assert mae([], [], []) is None


def test_a_picture_is_sent_by_the_first_and_encoded_once() -> None:
    shown = OutgoingPictures("a", np.zeros((40, 60, 3), np.uint8))
    assert shown.transfer("cloud-1", "image").claim()
    assert not shown.transfer("cloud-1", "image").claim()
    assert shown.transfer("cloud-1", "clip").claim()
    assert shown.jpeg() is shown.jpeg()
    assert shown.raw()[0].content_type == "application/x-rgb;width=60;height=40"
