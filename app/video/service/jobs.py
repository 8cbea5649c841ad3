"""Users' video jobs. Every verb takes the user: another user's job is as if there were none."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import Connection

from app.kit.clock import to_text
from app.kit.errors import BadInput, BadRequest, Conflict, TooMany
from app.kit.sql import Database, new_secret
from app.video import store
from app.video.errors import JobEnded, VideoJobNotFound, VideoNotFound
from app.video.model.constraint import read_constraint
from app.video.model.dag import check_types, read_dag
from app.video.model.job import JOBS, Ending, JobState, Mode, RestartPolicy, VideoJob
from app.video.scheduling.contract import DEFAULT
from app.video.scheduling.registry import policy_of
from app.video.service.catalogue import Catalogue
from app.video.service.counters import ENDED
from app.video.service.resources import NodeVideos, Resources
from app.video.store import Decided, Event, Kept

__all__ = ["Decided", "Event", "Jobs", "Submission", "no_such_job"]
BARRED = "Its user may no longer use this video, or its node: an administrator has changed that."
UID = re.compile(r"GLOBAL_ID_([1-9][0-9]{0,8})\.SUB_ID_([1-9][0-9]{0,8})")

FIGURE = re.compile(r"[1-9][0-9]{0,4}(\.[0-9]{1,4})?", re.ASCII)


@dataclass(frozen=True)
class Submission:
    """node: name or address of the node, as get_all_status has it. dag, constraint: as they came. uid: empty, or the
    unique_job_id that the requirement's /node/submit_job brings."""

    node: str
    video_id: str
    dag: object
    constraint: object = None
    policy: str = ""
    restart_policy: RestartPolicy = RestartPolicy.NEVER
    realtime: bool = True
    mode: Mode = Mode.RUN
    uid: str = ""


class Jobs:
    """Submits, changes, ends and forgets them.

    Args:
        kick: Has the controller look at the job of this uid soon; an empty uid: at the hosts of stages.
        announce: Tells those who watch the job of this uid that it changed.
        request_plan: Has the scheduler plan the job of this uid soon; with the reason, as `constraint`.
        on_forget: Each forgets what is kept elsewhere of the job of this uid.
        max_per_user: How many jobs of a user may be under way.
    """

    def __init__(
        self,
        database: Database,
        catalogue: Catalogue,
        resources: Resources,
        *,
        kick: Callable[[str], None],
        announce: Callable[[str], None],
        request_plan: Callable[[str, str], None],
        on_forget: Sequence[Callable[[str], None]] = (),
        max_per_user: int,
    ) -> None:
        self.database = database
        self.catalogue = catalogue
        self.resources = resources
        self.kick = kick
        self.announce = announce
        self.request_plan = request_plan
        self.on_forget = on_forget
        self.max_per_user = max_per_user

    def submit(self, owner: str, wanted: Submission, *, now: datetime) -> VideoJob:
        """Raises VideoNotFound, BadDag, BadStage, BadConstraint, UnknownPolicy, TooMany, Conflict (the uid is taken).
        Nothing is stored then."""
        video = self.video_of(owner, wanted.node, wanted.video_id, now)
        job = self._checked(owner, wanted, video.node, now)
        try:
            with self.database.write() as conn:
                if store.count_unended(conn, owner) >= self.max_per_user:
                    raise TooMany(
                        f"You have {self.max_per_user} video jobs that have not ended.",
                        hint="Cancel one of them, or wait for its end.",
                    )
                kept = replace(_numbered(conn, job), generator_output=source_of(video.videos[job.video_id]))
                store.add_job(conn, kept)
        except store.UidTaken:
            raise Conflict(
                f"The number of {wanted.uid} was given to a job already.",
                hint="Leave unique_job_id out, and it gets one of its own.",
            ) from None
        self._told(kept.job.uid)
        self.kick("")
        return kept.job

    def get(self, user: str, uid: str) -> VideoJob:
        """Raises VideoJobNotFound."""
        with self.database.read() as conn:
            return _there(store.get(conn, uid), user, uid).job

    def page(
        self, user: str, *, state: JobState | None = None, text: str = "", cursor: str | None = None, limit: int = 50
    ) -> tuple[list[VideoJob], str | None]:
        """Newest first, and where to go on. text: in the uid, node or video. Raises BadInput for no cursor."""
        with self.database.read() as conn:
            found = store.page(conn, user, store.Filter(state, text), before=_cursor(cursor), limit=limit + 1)
        shown = [kept.job for kept in found[:limit]]
        return shown, f"{shown[-1].created_at}~{shown[-1].uid}" if len(found) > limit else None

    def constrain(self, user: str, uid: str, constraint: object, *, now: datetime) -> VideoJob:
        """In force with the next plan, which is asked for at once. Raises VideoJobNotFound, JobEnded, BadConstraint."""
        wanted = read_constraint(constraint)
        with self.going(user, uid) as (conn, _):
            given = wanted.to_json()
            store.change(conn, uid, user_constraint=given)
            said = f"Demanded: delay {_range(wanted.lo, wanted.hi)}, quality {wanted.quality:g}."
            store.add_event(conn, uid, to_text(now), type="Constraint", message=said)
        return self._changed(user, uid, "constraint")

    def choose(self, user: str, uid: str, policy: str, *, now: datetime) -> VideoJob:
        """Another policy from now on. Raises VideoJobNotFound, JobEnded, UnknownPolicy."""
        policy_of(policy)
        with self.going(user, uid) as (conn, kept):
            if policy == kept.job.policy:
                return kept.job
            store.change(conn, uid, policy=policy, memory={})
            said = f"Scheduled by {policy}, and no longer by {kept.job.policy}."
            store.add_event(conn, uid, to_text(now), type="Policy", message=said)
        return self._changed(user, uid, "policy")

    def cancel(self, user: str, uid: str, *, now: datetime) -> VideoJob:
        """DONE, cancelled; its node hears of it when it is there. One that has ended stays as it is."""
        with self.database.write() as conn:
            kept = _there(store.lock(conn, uid), user, uid)
            if kept.job.state is JobState.DONE:
                return kept.job
            store.enter(
                conn, kept, JobState.DONE, at=to_text(now), message="Cancelled by its user.", ending=Ending.CANCELLED
            )
        ENDED.labels(Ending.CANCELLED.value).inc()
        self._told(uid)
        return self.get(user, uid)

    def bar(self, uid: str, *, now: datetime) -> None:
        """End one whose user may no longer use its video."""
        with self.database.write() as conn:
            kept = store.lock(conn, uid)
            if kept is None or kept.job.state is JobState.DONE:
                return
            store.enter(conn, kept, JobState.DONE, at=to_text(now), message=BARRED, ending=Ending.CANCELLED)
        ENDED.labels(Ending.CANCELLED.value).inc()
        self._told(uid)

    def delete(self, user: str, uid: str) -> None:
        """Of one that has ended: all that is kept of it. Raises VideoJobNotFound, Conflict while it runs."""
        if self.get(user, uid).state is not JobState.DONE:
            raise Conflict(f"The job {uid} has not ended.", hint="Cancel it first.")
        self.forget([uid])
        self.announce(uid)

    def forget(self, uids: Collection[str]) -> None:
        """Whatever is kept of these, and that nodes have to do with them."""
        for uid in uids:
            for forget in self.on_forget:
                forget(uid)
        nodes, told = self.resources.nodes, set[str]()
        with self.database.write() as conn:
            for uid in uids:
                told |= set(nodes.withdraw(conn, JOBS, uid))
            store.forget(conn, uids)
        for node in told:
            nodes.nudge(node)

    def events(self, user: str, uid: str) -> list[Event]:
        """Oldest first."""
        with self.database.read() as conn:
            _there(store.get(conn, uid), user, uid)
            return store.events_of(conn, uid)

    def decisions(self, user: str, uid: str, *, limit: int = 100) -> list[Decided]:
        """Newest first."""
        with self.database.read() as conn:
            _there(store.get(conn, uid), user, uid)
            return store.decisions_of(conn, uid, limit)

    def count(self, user: str) -> int:
        """Those that are not DONE."""
        with self.database.read() as conn:
            return store.count_unended(conn, user)

    def using(self, sha256: str) -> list[str]:
        """Uids of those, anybody's, that are not DONE and have a stage that runs a model of this file."""
        with self.database.read() as conn:
            found = store.unended(conn)
        return [
            kept.job.uid
            for kept in found
            if any(card.sha256 == sha256 for stage in kept.job.stages for cards in stage.variants for card in cards)
        ]

    def cancel_all(self, user: str, *, now: datetime) -> None:
        with self.database.read() as conn:
            found = store.unended(conn, owner=user)
        for kept in found:
            self.cancel(user, kept.job.uid, now=now)

    @contextmanager
    def going(self, user: str, uid: str) -> Iterator[tuple[Connection, Kept]]:
        """A job that has not ended; until the block ends nobody else changes it. Raises VideoJobNotFound, JobEnded."""
        with self.database.write() as conn:
            kept = _there(store.lock(conn, uid), user, uid)
            if kept.job.state is JobState.DONE:
                raise JobEnded(f"The job {uid} has ended.", hint="Submit it again.")
            yield conn, kept

    def _checked(self, owner: str, wanted: Submission, node: str, now: datetime) -> VideoJob:
        dag = read_dag(wanted.dag)
        stages = self.catalogue.resolve(owner, dag, now=now)
        kinds = self.catalogue.kinds()
        check_types(dag, {stage.name: kinds[stage.kind] for stage in stages})
        policy = wanted.policy or DEFAULT
        policy_of(policy)
        if wanted.uid and UID.fullmatch(wanted.uid) is None:
            raise BadRequest(
                f"unique_job_id: {wanted.uid[:64]!r} is none", hint="It reads GLOBAL_ID_<number>.SUB_ID_<number>."
            )
        return VideoJob(
            uid=wanted.uid,
            owner=owner,
            node=node,
            video_id=wanted.video_id,
            dag=dag,
            stages=stages,
            constraint=read_constraint(wanted.constraint),
            policy=policy,
            restart_policy=wanted.restart_policy,
            created_at=to_text(now),
            mode=wanted.mode,
            realtime=wanted.realtime,
            secret=new_secret(),
            reason="It waits for its first plan.",
        )

    def video_of(self, user: str, node: str, video_id: str, now: datetime) -> NodeVideos:
        """Raises VideoNotFound, also for one that this user may not use."""
        video = self.resources.find(user, node, now)
        if video is None:
            known = ", ".join(one.node for one in self.resources.videos(user, now)[:10]) or "none"
            raise VideoNotFound(f"There is no node {node[:64]!r} with videos.", hint=f"Nodes with videos: {known}.")
        if video_id not in video.videos:
            raise VideoNotFound(
                f"The node {video.node!r} has no video {video_id[:64]!r}.",
                hint=f"Its videos: {', '.join(video.videos)}.",
            )
        return video

    def _changed(self, user: str, uid: str, why: str) -> VideoJob:
        self.request_plan(uid, why)
        self._told(uid)
        return self.get(user, uid)

    def _told(self, uid: str) -> None:
        self.kick(uid)
        self.announce(uid)


def source_of(facts: Mapping[str, str]) -> dict[str, float]:
    """What a node says of its video, as a runner says it later of each frame: so that the first plan is for the rate
    and size that there are."""
    width, _, height = facts.get("size", "").partition("x")
    said = {"fps": facts.get("fps", ""), "width": width, "height": height}
    return {name: float(text) for name, text in said.items() if FIGURE.fullmatch(text)}


def no_such_job(uid: str) -> VideoJobNotFound:
    return VideoJobNotFound(f"There is no video job {uid[:64]!r}.", hint="The page of video jobs has those there are.")


def _there(kept: Kept | None, user: str, uid: str) -> Kept:
    if kept is None or kept.job.owner != user:
        raise no_such_job(uid)
    return kept


def _numbered(conn: Connection, job: VideoJob) -> Kept:
    """With a uid of its own, or with the one it brings. Raises UidTaken."""
    if not job.uid:
        number = store.next_number(conn)
        return Kept(replace(job, uid=f"GLOBAL_ID_{number}.SUB_ID_1"), number)
    found = UID.fullmatch(job.uid)
    assert found is not None
    store.claim_number(conn, int(found[1]), job.owner)
    return Kept(job, int(found[1]))


def _range(lo: float, hi: float) -> str:
    return f"up to {hi:g} s" if lo < 0 else f"{lo:g} to {hi:g} s"


def _cursor(text: str | None) -> tuple[str, str] | None:
    if not text:
        return None
    at, separator, uid = text.partition("~")
    if not separator or not text.isprintable():
        raise BadInput(f"{text[:64]!r} is no cursor.", hint="Take next_cursor of the page before.")
    return at, uid
