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
    """Of each node this video; empty: all of them."""
    submission: Mapping[str, Any]
    """What each job is: {dag, constraint, policy, restart_policy, realtime}, as its user sent it."""
    problem: str = ""
    """Why a job of it could not be submitted when that was last tried; empty: all were."""

    def selects(self, node: Node) -> bool:
        return node.is_at_the_edge and selects(self.selector, node.labels)


@dataclass(frozen=True)
class JobSetChanges:
    """What makes the jobs of a set what they should be."""

    missing: tuple[Video, ...]
    """Videos that need a job."""
    surplus: tuple[str, ...]
    """Uids of jobs under way whose video is none of the set's any more."""


def changes_of(videos: Iterable[Video], jobs: Sequence[VideoJob]) -> JobSetChanges:
    """A job that has ended by itself, or by a fault, is not submitted again; one that was cancelled is, for it was when
    its video was none of the set's.

    Args:
        videos: those of the set.
        jobs: those that were submitted for it and are kept.
    """
    selected = set(videos)
    had = {(job.node, job.video_id) for job in jobs if job.ending is not Ending.CANCELLED}
    under_way = [job for job in jobs if job.state is not JobState.DONE]
    surplus = tuple(job.uid for job in under_way if (job.node, job.video_id) not in selected)
    return JobSetChanges(tuple(sorted(selected - had)), surplus)
