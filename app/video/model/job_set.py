"""A job on every video of the nodes that its labels select: one document for a hundred cameras. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.kit.text.labels import selects
from app.nodes.model import Node
from app.video.model.job import Ending, JobState, VideoJob

Video = tuple[str, str]
"""A node's name, and the id of a video of it."""


@dataclass(frozen=True)
class JobSet:
    """A user's."""

    set_id: str
    owner: str
    name: str
    created_at: str
    selector: Mapping[str, str]
    """The labels of the nodes."""
    video_id: str
    """Only this video of each node; empty: all of them."""
    submission: Mapping[str, Any]
    """The body of each job: {dag, constraint, policy, restart_policy, realtime}, as its user sent it."""
    problem: str = ""
    """Why a job of it could not be submitted at the last attempt; empty: all were."""

    def selects(self, node: Node) -> bool:
        return node.is_at_the_edge and selects(self.selector, node.labels)


@dataclass(frozen=True)
class JobSetChanges:
    """The changes that bring the jobs of a set to its desired state."""

    missing: tuple[Video, ...]
    """Videos that need a job."""
    surplus: tuple[str, ...]
    """Uids of active jobs whose video no longer belongs to the set."""


def changes_of(videos: Iterable[Video], jobs: Sequence[VideoJob]) -> JobSetChanges:
    """A job that ended by itself, or by a fault, is not submitted again; a cancelled one is, because it was cancelled
    when its video did not belong to the set.

    Args:
        videos: those of the set.
        jobs: its submitted jobs that still exist.
    """
    selected = set(videos)
    had = {(job.node, job.video_id) for job in jobs if job.ending is not Ending.CANCELLED}
    under_way = [job for job in jobs if job.state is not JobState.DONE]
    surplus = tuple(job.uid for job in under_way if (job.node, job.video_id) not in selected)
    return JobSetChanges(tuple(sorted(selected - had)), surplus)
