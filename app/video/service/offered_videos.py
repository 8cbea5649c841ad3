"""What a node tells of its videos, as far as it decides about a new job. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from app.video.model.job import Mode, RestartPolicy, VideoJob

FIGURE = re.compile(r"[1-9][0-9]{0,4}(\.[0-9]{1,4})?", re.ASCII)


def usual_restart_policy(job: VideoJob, facts: Mapping[str, str]) -> RestartPolicy:
    """Returns the policy of a job without one of its own: a live source is opened again whenever it fails, another is
    read once. Profiling reads once, too.

    Args:
        facts: of its video, see NodeVideos.
    """
    is_live = bool(facts.get("live")) and job.mode is Mode.RUN
    return RestartPolicy.ALWAYS if is_live else RestartPolicy.NEVER


def source_facts(facts: Mapping[str, str]) -> dict[str, float]:
    """The node's facts about its video, which a runner later reports with each frame: so that the first plan is for the
    actual rate and size."""
    width, _, height = facts.get("size", "").partition("x")
    texts = {"fps": facts.get("fps", ""), "width": width, "height": height}
    return {name: float(text) for name, text in texts.items() if FIGURE.fullmatch(text)}
