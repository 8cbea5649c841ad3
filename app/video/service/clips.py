"""Recordings of jobs: their state and clips, which their nodes have; and the clips of events, which are kept here."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from time import monotonic

from app.kit.clock import from_text, to_text
from app.kit.errors import BadRequest
from app.kit.text.json_values import JsonObject
from app.kit.text.untrusted_json import read_object
from app.results.model.event import RuleEvent
from app.results.service import Rules
from app.results.service.event_media import CLIP, media_key, media_type_of
from app.results.store import RuleEventFilter
from app.video import store
from app.video.errors import ClipNotFound, RecordingUnavailable
from app.video.model.drawn_video import MAX_CLIP_S, read_recording
from app.video.model.flow import READER
from app.video.model.job import JobState, VideoJob
from app.video.service.pictures import LiveStream, Pictures
from app.video.service.producers import KIND, producer_of_job

BEFORE_S, AFTER_S = 5.0, 5.0
"""Of the clip of an event."""
KEPT_WITHIN_S = 60.0
"""The clip of an event is fetched within this time after it, each time that a snapshot of its job arrives."""
AT_ONCE = 10
CONNECT_S, READ_S, WHOLE_S = 3.0, 20.0, 120.0
"""Seconds for connecting to a node, between two parts of its answer, and for the whole answer."""
MAX_CLIP_BYTES, MAX_STATE_BYTES = 256 << 20, 64 << 10
MAX_PROBLEM, MOST_CORES = 200, 1000.0
"""Characters, and share of a core, that a node can report."""


@dataclass(frozen=True)
class Clip:
    content: bytes
    media_type: str


@dataclass(frozen=True)
class RecordingReport:
    """The state of a recording, as its node reports it."""

    begins_at: str | None
    """Of the oldest picture; None: there is none yet."""
    ends_at: str | None
    size_bytes: int
    core_share: float
    """The share of a core that it takes."""
    problem: str
    """Why nothing is recorded now; empty: it is."""


class Clips:
    """The recordings of jobs.

    Args:
        pictures: know where runners are.
        rules: of jobs, and their events.
    """

    def __init__(self, pictures: Pictures, rules: Rules) -> None:
        self.pictures = pictures
        self.rules = rules

    def state(self, user: str, uid: str, *, now: datetime) -> RecordingReport:
        """Returns the state of the recording.

        Raises:
            VideoJobNotFound: There is no such job.
            ClipNotFound: The job is not recorded, or has ended.
            RecordingUnavailable: Its process does not answer, or in an unknown form.
        """
        content = self._read(self._find_runner(user, uid, now), "recording", MAX_STATE_BYTES)
        try:
            return _report(read_object(content))
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            raise RecordingUnavailable(
                "The job's process answers in a form that is not known.", hint="Look again soon."
            ) from error

    def clip(self, user: str, uid: str, since: datetime, until: datetime, *, now: datetime) -> Clip:
        """Returns the recording of a time, at most MAX_CLIP_S long.

        Args:
            user: who sees it.
            uid: of the job.
            since: begin of the time.
            until: end of the time.
            now: the time of the request.

        Raises:
            VideoJobNotFound: It is not this user's, either.
            ClipNotFound: Nothing is recorded of this time, or no longer.
            RecordingUnavailable: Its node cannot be reached, or cannot read it.
            BadRequest: The end is not later than the begin, or much later.
        """
        if not 0 < (until - since).total_seconds() <= MAX_CLIP_S:
            raise BadRequest(
                "A clip lasts at least a moment and at most ten minutes.", hint="`until` is the time of its end."
            )
        return self._fetch(self._find_runner(user, uid, now), since, until)

    def of_event(self, user: str, uid: str, event_id: int, *, now: datetime) -> Clip:
        """Returns the clip of an event: the kept one, otherwise from the recording.

        Args:
            user: who sees it.
            uid: of the job.
            event_id: of the event.
            now: the time of the request.

        Raises:
            RuleEventNotFound: The job has no such event; otherwise as clip.
        """
        job = self.pictures.jobs.get(user, uid)
        event = self.rules.event(producer_of_job(job), event_id)
        kept = self.rules.media.get(_build_key(uid, event_id))
        if kept is not None:
            return Clip(kept, media_type_of(kept))
        return self.clip(user, uid, *span_of(event), now=now)

    def event_span(self, user: str, uid: str, event_id: int) -> tuple[datetime, datetime, bool]:
        """Returns begin and end of an event's clip, and whether it is kept.

        Raises:
            VideoJobNotFound: There is no such job.
            RuleEventNotFound: The job has no such event.
        """
        job = self.pictures.jobs.get(user, uid)
        event = self.rules.event(producer_of_job(job), event_id)
        return *span_of(event), self.rules.media.has(_build_key(uid, event_id))

    def keep_of_events(self, uid: str, *, now: datetime) -> int:
        """Keeps the clips of the newest events of a job, beside their pictures. Returns the number."""
        with self.pictures.jobs.database.read() as conn:
            stored = store.get(conn, uid)
        if stored is None or stored.job.dag.recording is None:
            return 0
        job = stored.job
        since, until = now - timedelta(seconds=KEPT_WITHIN_S), now - timedelta(seconds=AFTER_S + 1)
        chosen = RuleEventFilter(since=to_text(since), until=to_text(until))
        events = self.rules.events(producer_of_job(job), chosen, limit=AT_ONCE).events
        missing = [event for event in events if not self.rules.media.has(_build_key(uid, event.event_id))]
        if not missing or job.state is JobState.DONE:
            return 0
        runner, count = self._find_runner(job.owner, uid, now), 0
        for event in missing:
            with suppress(ClipNotFound):  # nothing is recorded of it, as while the disk is full
                clip = self._fetch(runner, *span_of(event))
                self.rules.media.put(_build_key(uid, event.event_id), clip.content)
                count += 1
                if self.pictures.forget_if_gone(uid):
                    break
        return count

    def record(self, user: str, uid: str, recording: object, *, now: datetime) -> VideoJob:
        """Records a running job from now on; its runner goes on.

        Args:
            user: whose job it is.
            uid: of the job.
            recording: see read_recording; None: it is no longer recorded, and what was recorded is deleted.
            now: the time of the request.

        Raises:
            VideoJobNotFound: There is no such job.
            JobEnded: It has ended.
            BadDag: The recording has another form.
        """
        limits, jobs = read_recording(recording, READER), self.pictures.jobs
        with jobs.locked(user, uid) as (conn, stored):
            store.change(conn, uid, dag=replace(stored.job.dag, recording=limits).to_json())
            message = (
                "It is no longer recorded." if limits is None else f"It is recorded: the newest {limits.hours:g} h."
            )
            store.add_event(conn, uid, to_text(now), type="Note", message=message)
        jobs.wake(uid)
        jobs.announce(uid)
        return jobs.get(user, uid)

    def _find_runner(self, user: str, uid: str, now: datetime) -> LiveStream:
        job = self.pictures.jobs.get(user, uid)
        check_recorded(job)
        runner = self.pictures.live(user, uid, now=now)
        if runner is None:
            raise RecordingUnavailable(
                f"The node {job.node} does not answer, or the job has not begun there.", hint="Look again soon."
            )
        return runner

    def _fetch(self, runner: LiveStream, since: datetime, until: datetime) -> Clip:
        span = {"begins_s": since.timestamp(), "ends_s": until.timestamp()}
        content = self._read(runner, "clip", MAX_CLIP_BYTES, **span)
        return Clip(content, media_type_of(content))

    def _read(self, runner: LiveStream, path: str, most_bytes: int, **query: float) -> bytes:
        """Nodes are not trusted to end their answers."""
        import httpx

        timeout = httpx.Timeout(CONNECT_S, read=READ_S)
        headers = {"Authorization": f"Bearer {runner.secret}", "Accept-Encoding": "identity"}
        content, until = bytearray(), monotonic() + WHOLE_S
        try:
            with (
                httpx.Client(timeout=timeout, trust_env=False) as client,
                client.stream("GET", f"{runner.url}/{path}", params=query, headers=headers) as answer,
            ):
                if answer.status_code == httpx.codes.NOT_FOUND:
                    raise ClipNotFound(
                        "Nothing is recorded of this time, or no longer.",
                        hint="The page Recording of the job says how far back it goes.",
                    )
                answer.raise_for_status()
                for chunk in answer.iter_raw():
                    content += chunk
                    if len(content) > most_bytes or monotonic() > until:
                        raise RecordingUnavailable(
                            "The answer of the node is too large, or takes too long.", hint="Choose a shorter time."
                        )
        except httpx.HTTPError as error:
            raise RecordingUnavailable(
                f"The job's process does not answer: {error or type(error).__name__}", hint="Look again soon."
            ) from error
        return bytes(content)


def check_recorded(job: VideoJob) -> None:
    """Checks that the job records now.

    Raises:
        ClipNotFound: It is not recorded, or has ended.
    """
    if job.dag.recording is None:
        raise ClipNotFound("This job is not recorded.", hint="Its page Recording switches it on, for what comes.")
    if job.state is JobState.DONE:
        raise ClipNotFound("The job has ended, and its recording with it.", hint="Clips of events are kept.")


def span_of(event: RuleEvent) -> tuple[datetime, datetime]:
    """The time of the clip of an event."""
    at = from_text(event.at)
    return at - timedelta(seconds=BEFORE_S), at + timedelta(seconds=AFTER_S)


def _build_key(uid: str, event_id: int) -> str:
    return media_key(KIND, uid, event_id, CLIP)


def _report(facts: JsonObject) -> RecordingReport:
    begins_at, ends_at = (_format_seconds(facts[name]) for name in ("begins_s", "ends_s"))
    size_bytes, core_share = int(facts["size_bytes"]), float(facts["core_share"])
    if not (0 <= size_bytes < 1 << 53 and 0 <= core_share < MOST_CORES):
        raise ValueError("a figure is out of range")
    return RecordingReport(begins_at, ends_at, size_bytes, core_share, str(facts["problem"])[:MAX_PROBLEM])


def _format_seconds(seconds: float | None) -> str | None:
    return None if seconds is None else to_text(datetime.fromtimestamp(seconds, UTC))
