"""Reports from the runner to its agent, which forwards them to the web server: results, requests for plans, snapshots.

If the agent is unreachable, they are sent later. A report that may have arrived is repeated unchanged, with the same
number, so that nothing counts twice; a small file keeps the numbers across restarts.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from app.edge.agent_connection import AgentConnection
from app.edge.video.runner.checkpoint import CheckpointFile
from app.inference.broadcast import BroadcastState
from app.kit.text.json_values import JsonObject
from app.video.model.dag import Dag
from app.video.model.report import JobReport, PlanRequest, PlanResult

EVERY_S = 1.0
AT_LEAST_EVERY_S = 5.0
MOST_RESULTS = 5000
"""Maximum number of unsent results; beyond it the oldest are lost."""
IN_ONE = 500
"""Maximum number of results in a report."""
MOST_CHARACTERS = 1 << 17
"""Maximum length of a report's results: half of what the web accepts, for another result of this length may follow."""
TIMEOUT_S = 3.0
"""Of a request to the agent."""
logger = logging.getLogger(__name__)


class Reporter:
    """Collects reports and sends them. Any number of threads may use it; `step` is for one.

    Args:
        uid: the id of the job.
        checkpoint: records what was sent, for a restart.
        plan_result: returns the result of the current plan; called for each report.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        uid: str,
        agent: AgentClient,
        checkpoint: CheckpointFile,
        *,
        plan_result: Callable[[], PlanResult | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Sends nothing yet."""
        self._uid, self._agent, self._checkpoint = uid, agent, checkpoint
        self._plan_result, self._clock = plan_result, clock
        self._lock = threading.Lock()
        self._results: deque[JsonObject] = deque(maxlen=MOST_RESULTS)
        self._notes: deque[str] = deque(maxlen=20)
        self._profile: list[JsonObject] = []
        self._progress: float | None = None
        self._ending: tuple[str, str] | None = None
        self._unsent: bytes | None = None
        self._last_flags: Sequence[str] | None = None
        self._last_at = -AT_LEAST_EVERY_S
        self._result: PlanResult | None = None

    def result(self, row: Mapping[str, Any]) -> None:
        with self._lock:
            self._results.append(dict(row))

    def note(self, text: str) -> None:
        """Adds an entry to the job's events."""
        logger.info("%s", text)
        with self._lock:
            self._notes.append(text[:500])

    def profiled(self, rows: Sequence[Mapping[str, Any]], progress: float) -> None:
        with self._lock:
            self._profile += [dict(row) for row in rows]
            self._progress = progress

    def end(self, ending: str, reason: str) -> None:
        """Sets the ending, which is reported once, after all results."""
        with self._lock:
            self._ending = (ending, reason)

    def step(self, flags: Sequence[str], silent_s: float | None, broadcast: BroadcastState | None = None) -> bool:
        """Sends new results and events.

        Args:
            flags: the current flags of the job.
            silent_s: seconds since the source's last picture; None: pictures arrive.
            broadcast: the state of the broadcast; None: there is none.

        Returns:
            Whether everything is sent. False: the agent is unreachable, or there is more to send at once.
        """
        if self._unsent is None:
            self._unsent = self._compose(flags, silent_s, broadcast)
        if self._unsent is None:
            return True
        if not self._agent.send("/node/sync_job_result", self._unsent):
            return False
        self._unsent = None
        return not self._results and not self._notes and self._ending is None

    def _compose(self, flags: Sequence[str], silent_s: float | None, broadcast: BroadcastState | None) -> bytes | None:
        with self._lock:
            if not self._has_changed(flags):
                return None
            state = self._checkpoint.state
            state.seq += 1
            report = JobReport(job_uid=self._uid, seq=state.seq, results=self._take_oldest(), flags=list(flags))
            if report["results"]:
                state.n_loop = max(state.n_loop, int(report["results"][-1]["n_loop"]))
            self._add(report, silent_s)
            if broadcast is not None:
                report["broadcast"] = broadcast
        self._last_flags, self._last_at = flags, self._clock()
        self._checkpoint.write()
        return json.dumps(report).encode()

    def _has_changed(self, flags: Sequence[str]) -> bool:
        """Whether a report is due: each second while there are results, otherwise occasionally as a sign of life."""
        unsent = self._results or self._notes or self._profile or self._ending
        return bool(unsent) or flags != self._last_flags or self._clock() - self._last_at >= AT_LEAST_EVERY_S

    def _take_oldest(self) -> list[JsonObject]:
        """Returns the oldest results, as many as fit into a report."""
        taken: list[JsonObject] = []
        characters = 0
        while self._results and len(taken) < IN_ONE and characters < MOST_CHARACTERS:
            taken.append(self._results.popleft())
            characters += len(json.dumps(taken[-1]))
        return taken

    def _add(self, report: JobReport, silent_s: float | None) -> None:
        self._result = self._plan_result() or self._result
        if self._result is not None:
            report["plan_result"] = self._result
        if silent_s is not None:
            report["silent_s"] = round(silent_s, 1)
        if self._notes:
            report["note"] = "\n".join(self._notes)
            self._notes.clear()
        if self._profile:
            report["profile"], self._profile = self._profile, []
        if self._progress is not None:
            report["progress"] = round(self._progress, 4)
        if self._ending is not None and not self._results and not self._notes:
            report["ending"], report["reason"] = self._ending
            self._checkpoint.state.ending, self._checkpoint.state.reason = self._ending
            self._ending = None


class PlanRequester:
    """Decides when a new plan is requested."""

    START_S, LEAST_S, FRAMES, LATE = 5.0, 1.0, 10, 3

    def __init__(self, send: Callable[[str], bool], clock: Callable[[], float] = time.monotonic) -> None:
        """Creates it. `send` is called with the reason, and returns whether the request has arrived."""
        self._send, self._clock = send, clock
        self._at = -self.START_S
        self._has_fallen = False
        self._has_told_source = False

    def fell_back(self) -> None:
        self._has_fallen = True

    def step(self, *, has_plan: bool, frames: int, late: int, is_beyond_source: bool = False) -> None:
        """
        Args:
            has_plan: whether there is a current plan.
            frames: the number of frames processed since the last request.
            late: how many of the newest of them in a row violate the constraint. A link that falls lets few frames
                through, so these are not waited for.
            is_beyond_source: whether the plan has a higher rate or a larger size than the source: it was made before
                the source was opened.
        """
        now = self._clock()
        self._has_told_source = self._has_told_source and is_beyond_source
        is_to_tell = has_plan and is_beyond_source and not self._has_told_source
        why = "source" if is_to_tell else self._explain(has_plan=has_plan, frames=frames, late=late)
        wait_s = self.LEAST_S if has_plan else self.START_S
        if not why or now - self._at < wait_s:
            return
        self._at = now
        if self._send(why):
            self._has_fallen = self._has_fallen and why != "fallback"
            self._has_told_source = self._has_told_source or why == "source"

    def _explain(self, *, has_plan: bool, frames: int, late: int) -> str:
        if not has_plan:
            return "start"
        if self._has_fallen:
            return "fallback"
        if late >= self.LATE:
            return "late"
        return "period" if frames >= self.FRAMES else ""


def plan_request(
    uid: str,
    dag: Dag,
    *,
    result: PlanResult | None,
    constraint: Mapping[str, Any],
    why: str,
    number: int,
    newest: Mapping[str, Any] | None,
) -> PlanRequest:
    """Returns the request for a new plan.

    Args:
        result: the result of the last plan; None: there was none yet.
        why: the cause of the request, a word.
        number: the number of this request; it increases by one each time.
        newest: facts about the newest frame; None or empty: no frame yet.
    """
    request = PlanRequest(
        job_uid=uid, dag=dag.to_json(), last_plan_result=result, user_constraint=dict(constraint), asked=number, why=why
    )
    if newest:
        request["generator_output"] = dict(newest)
    return request


class AgentClient:
    """Sends to the agent of this node."""

    def __init__(self, agent_url: str, uid: str) -> None:
        self._has_agent, self._uid = bool(agent_url), uid
        self._agent = AgentConnection(agent_url, timeout_s=TIMEOUT_S)

    def send(self, path: str, body: bytes, content_type: str = "application/json") -> bool:
        """Sends a report. Returns whether it has arrived; one that the agent refuses has arrived."""
        return not self._has_agent or self._agent.post(path, content=body, headers={"content-type": content_type})

    def ask(self, request: PlanRequest) -> bool:
        return self.send("/node/get_plan", json.dumps(request).encode())

    def show(self, jpeg: bytes) -> None:
        self.send(f"/video/{quote(self._uid, safe='')}/picture", jpeg, "image/jpeg")

    def close(self) -> None:
        self._agent.close()
