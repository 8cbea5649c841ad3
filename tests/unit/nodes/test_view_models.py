"""How a node looks on a page, whatever it says of itself."""

from __future__ import annotations

from datetime import UTC, datetime

from app.nodes.model import Node, NodeReport, Side, WorkerReport, WorkerState, WorkKey
from app.nodes.schemas import node_answer
from app.nodes.view_models import VideoView, view_of

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


def node(report: NodeReport, seen: str | None = "2026-11-20T11:59:50.000Z") -> Node:
    return Node("edge0", Side.EDGE, "2026-11-20T11:00:00.000Z", last_seen_at=seen, report=report)


def worker(uid: str, state: WorkerState) -> WorkerReport:
    return WorkerReport(WorkKey("k", uid, "edge"), "default", uid, uid, 1, state)


def test_states_are_counted_in_one_order_and_workers_are_by_name() -> None:
    workers = (worker("b", WorkerState.FAILED), worker("c", WorkerState.RUNNING), worker("a", WorkerState.FAILED))
    view = view_of(node(NodeReport(workers=workers)), NOW, is_whole=True)
    assert view.states == ((WorkerState.RUNNING, 1), (WorkerState.FAILED, 2))
    assert [shown.name for shown in view.workers] == ["a", "b", "c"]


def test_who_may_not_see_workers_sees_how_many_there_are() -> None:
    view = view_of(node(NodeReport(workers=(worker("a", WorkerState.RUNNING),))), NOW, is_whole=False)
    assert (view.states, view.workers) == (((WorkerState.RUNNING, 1),), ())


def test_whether_workers_of_a_silent_node_run_is_not_known() -> None:
    silent = node(NodeReport(workers=(worker("a", WorkerState.RUNNING),)), "2026-11-20T11:59:30.000Z")
    view, answer = view_of(silent, NOW, is_whole=True), node_answer(silent, NOW, is_whole=True)
    assert view.states == ((WorkerState.UNKNOWN, 1),)
    assert answer.worker_states == {WorkerState.UNKNOWN: 1}
    assert answer.workers is not None
    assert [shown.state for shown in (*view.workers, *answer.workers)] == [WorkerState.UNKNOWN] * 2


def test_figures_that_no_machine_has_are_brought_to_some_that_can_be_shown() -> None:
    view = view_of(node(NodeReport(cpu=1e300, memory=-5, memory_bytes=10**400, free_disk_bytes=-1)), NOW, is_whole=True)
    assert (view.cpu, view.memory, view.memory_bytes, view.free_disk_bytes) == (100, 0, 1 << 60, 0)


def test_a_node_is_online_for_half_a_minute_after_it_was_heard() -> None:
    for seen, is_online in (("2026-11-20T11:59:31.000Z", True), ("2026-11-20T11:59:30.000Z", False), (None, False)):
        assert view_of(node(NodeReport(), seen), NOW, is_whole=True).is_online is is_online


def test_videos_are_shown_as_a_node_offers_them() -> None:
    videos = {"0": {"type": "people indoor", "name": "classroom.mp4"}, "1": {"type": "x" * 999, "name": 5}}
    view = view_of(node(NodeReport(offers={"videojobs": {"address": "", "videos": videos}})), NOW, is_whole=False)
    assert view.videos == (VideoView("0", "people indoor", "classroom.mp4"), VideoView("1", "x" * 200, ""))


def test_videos_are_shown_by_number_with_what_speaks_against_them() -> None:
    videos = {"10": {"type": "a"}, "2": {"type": "b", "problem": "b.mp4 is cut off: 57 of 120 frames are there"}}
    view = view_of(node(NodeReport(offers={"videojobs": {"videos": videos}})), NOW, is_whole=False)
    assert [(one.video_id, one.problem) for one in view.videos] == [
        ("2", "b.mp4 is cut off: 57 of 120 frames are there"),
        ("10", ""),
    ]


def test_offers_that_make_no_sense_show_nothing() -> None:
    for nonsense in (5, [], {"videos": []}, {"videos": {"0": "x"}}, {}):
        assert view_of(node(NodeReport(offers={"videojobs": nonsense})), NOW, is_whole=True).videos == ()


def test_execution_providers_have_the_names_of_their_makers() -> None:
    view = view_of(node(NodeReport(providers=("openvino", "cpu"), provider="cuda")), NOW, is_whole=True)
    assert (view.providers, view.provider) == (("OpenVINO", "CPU"), "CUDA")
    assert view_of(node(NodeReport()), NOW, is_whole=True).provider == "", "the first that can be used"
