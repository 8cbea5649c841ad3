"""A new job: what its user sends, and what is checked and completed before it is stored."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import Connection

from app.kit.clock import to_text
from app.kit.errors import BadRequest, Conflict
from app.kit.sql import new_secret
from app.video import store
from app.video.errors import BadDag, BadJobName, VideoRefused
from app.video.model.constraint import read_constraint
from app.video.model.dag import read_dag
from app.video.model.drawn_video import BROADCAST
from app.video.model.job import Mode, RestartPolicy, VideoJob
from app.video.scheduling.contract import DEFAULT
from app.video.scheduling.registry import policy_of
from app.video.service.catalogue import Catalogue
from app.video.service.resources import NodeVideos
from app.video.store import StoredJob

UID = re.compile(r"GLOBAL_ID_([1-9][0-9]{0,8})\.SUB_ID_([1-9][0-9]{0,8})")
MAX_NAME = 200
FIGURE = re.compile(r"[1-9][0-9]{0,4}(\.[0-9]{1,4})?", re.ASCII)


@dataclass(frozen=True)
class Submission:
    """A job as requested by its user, before any check."""

    node: str
    """Name of the node with the video, or the address of its agent."""
    video_id: str
    dag: object
    """The unparsed input: see read_dag."""
    constraint: object = None
    """The unparsed input: see read_constraint."""
    policy: str = ""
    restart_policy: RestartPolicy | None = None
    """None: as suits the source."""
    realtime: bool = True
    mode: Mode = Mode.RUN
    uid: str = ""
    """The unique_job_id that the requirement's /node/submit_job brings; empty: it gets a number of its own."""
    name: str = ""
    """Its user's name for it."""


def checked_job(catalogue: Catalogue, owner: str, submission: Submission, node: str, now: datetime) -> VideoJob:
    """The job, not stored yet.

    Args:
        owner: its user.
        submission: what is checked.
        node: the name of its node; empty: that is not decided yet.
        now: when it is created.

    Raises:
        BadRequest: The uid has another form.
        BadDag, BadStage, BadConstraint, UnknownPolicy, BadJobName: A part of the submission is invalid.
    """
    dag = read_dag(submission.dag)
    stages = catalogue.resolve(owner, dag, now=now)
    policy = submission.policy or DEFAULT
    policy_of(policy)
    if submission.uid and UID.fullmatch(submission.uid) is None:
        raise BadRequest(
            f"unique_job_id: {submission.uid[:64]!r} is none", hint="It reads GLOBAL_ID_<number>.SUB_ID_<number>."
        )
    return VideoJob(
        uid=submission.uid,
        owner=owner,
        node=node,
        video_id=submission.video_id,
        dag=dag,
        stages=stages,
        constraint=read_constraint(submission.constraint),
        policy=policy,
        restart_policy=submission.restart_policy or RestartPolicy.NEVER,
        created_at=to_text(now),
        mode=submission.mode,
        realtime=submission.realtime,
        secret=new_secret(),
        reason="It waits for its first plan.",
        name=job_name(submission.name),
    )


def job_name(text: str) -> str:
    """Returns the name without surrounding spaces.

    Raises:
        BadJobName: It is too long, or has control characters.
    """
    name = text.strip()
    if len(name) > MAX_NAME or not name.isprintable():
        raise BadJobName(
            "This cannot be the name of a video job.", hint=f"At most {MAX_NAME} characters in a line can."
        )
    return name


def numbered(conn: Connection, job: VideoJob) -> StoredJob:
    """Returns the job with a new uid, or with the one that it brings.

    Raises:
        UidTaken: Another job has this.
    """
    if not job.uid:
        number = store.next_number(conn)
        return StoredJob(replace(job, uid=f"GLOBAL_ID_{number}.SUB_ID_1"), number)
    match = UID.fullmatch(job.uid)
    assert match is not None
    store.claim_number(conn, int(match[1]), job.owner)
    return StoredJob(job, int(match[1]))


def check_source(video_id: str, node: NodeVideos) -> None:
    """Checks that the node opens the video.

    Raises:
        VideoRefused: It says that it does not.
    """
    facts = node.videos[video_id]
    if facts.get("refused"):
        raise VideoRefused(
            f"The node {node.node!r} does not open its video {video_id!r}.", hint=facts.get("problem", "")
        )


def check_media_server(job: VideoJob, node: NodeVideos) -> None:
    """Checks that a broadcast has a media server.

    Raises:
        BadDag: Its node has none.
    """
    if job.dag.broadcast is not None and not node.media_server:
        raise BadDag(
            f"{BROADCAST}: the node {node.node!r} has no media server.",
            hint="Its administrator gives its agent one: modelmill node --media-server rtsp://…",
            detail={"place": BROADCAST},
        )


def check_path(conn: Connection, job: VideoJob) -> None:
    """Checks the path of a broadcast, since one would replace the other.

    Raises:
        Conflict: Another job of this node has it.
    """
    path = job.dag.broadcast.path if job.dag.broadcast is not None else ""
    broadcasts = (
        [stored.job.dag.broadcast for stored in store.list_unended(conn) if stored.job.node == job.node] if path else ()
    )
    if any(broadcast is not None and broadcast.path == path for broadcast in broadcasts):
        raise Conflict(
            f"A job on {job.node} is broadcast as {path!r} already.", hint="Choose another path, or leave it out."
        )


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
