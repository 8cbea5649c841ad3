"""Which jobs a job set lacks, and which are none of its own any more."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from app.nodes.model import Node, Side
from app.video.model.job import Ending, JobState
from app.video.model.job_set import JobSet, JobSetChanges, changes_of


def job(uid: str, node: str, video: str, ending: Ending | None = None) -> Any:
    state = JobState.DONE if ending else JobState.EXEC
    return SimpleNamespace(uid=uid, node=node, video_id=video, state=state, ending=ending)


def test_each_video_has_one_job_and_others_have_none() -> None:
    jobs = [
        job("a", "cam0", "0"),
        job("b", "cam1", "0"),
        job("c", "gone", "0"),
        job("d", "gone", "1", Ending.CANCELLED),
    ]
    videos = [("cam0", "0"), ("cam0", "1"), ("cam1", "0")]
    assert changes_of(videos, jobs) == JobSetChanges((("cam0", "1"),), ("c",))


def test_a_job_that_ended_by_itself_is_not_begun_again_but_one_that_was_cancelled_is() -> None:
    ended = [job(name, "cam0", name, ending) for name, ending in zip("abc", Ending, strict=True)]
    assert changes_of([("cam0", name) for name in "abc"], ended).missing == (("cam0", "c"),)
    assert [ending for ending in Ending][2] is Ending.CANCELLED


def test_nodes_in_the_cloud_are_none_of_it() -> None:
    berlin = JobSet("s", "alice", "", "", {"site": "berlin"}, "", {})
    labels = {"site": "berlin", "floor": "2"}
    edge, cloud = (Node("n", side, "", labels=labels) for side in (Side.EDGE, Side.CLOUD))
    assert berlin.selects(edge) and not berlin.selects(cloud) and not berlin.selects(Node("n", Side.HOST, ""))
