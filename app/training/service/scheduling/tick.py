"""One tick: look after what Ray has, let in what there is room for, say why the rest waits, copy logs.

Whatever it does can be broken off between any two steps and done again. Ray that does not answer ends a tick and
changes no state; it is asked again by the next one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime

import redis

from app.kit.errors import ModelmillError
from app.kit.observability import logs
from app.kit.redis.leader import Superseded, Watch
from app.kit.sql.errors import DatabaseUnavailable
from app.training import store
from app.training.errors import RayUnreachable
from app.training.gateway import PlacementGroup
from app.training.model import Node, State, Waiting, WaitingCode
from app.training.model.gang import decide
from app.training.service.cluster import ClusterPicture, ClusterView, Holder
from app.training.service.scheduling.admission import as_queued, begin, read_line, write_reason_for_all, write_reasons
from app.training.service.scheduling.context import Allocation, SchedulerContext, TickContext
from app.training.service.scheduling.ray_sync import copy_log, follow, judge_wait, with_claim

logger = logging.getLogger(__name__)


class Scheduler:
    """Used by one thread. picture: where the cluster is left to be seen."""

    def __init__(self, desk: SchedulerContext, picture: ClusterPicture) -> None:
        self.desk = desk
        self.picture = picture
        self._away_since: str | None = None

    def tick(self, now: datetime, watch: Watch = lambda: None) -> bool:
        """Is anything on its way, just begun or told to stop? Raises DatabaseUnavailable, and what watch raises."""
        moment = TickContext(now, watch)
        try:
            view, holdings = self._round(moment)
        except RayUnreachable as error:
            self._ray_is_away(moment, error)
            return False
        self._ray_is_there(view)
        self._copy_logs(holdings, moment)
        return any(holding.task.state is not State.RUNNING for holding in holdings)

    def close(self) -> None:
        self.desk.gateway.close()

    def _round(self, moment: TickContext) -> tuple[ClusterView, list[Allocation]]:
        """Jobs first, then groups, then nodes: what is claimed in between counts twice, and not never."""
        holdings = self._follow_all(moment)
        groups = self.desk.gateway.placement_groups() if any(it.is_running for it in holdings) else ()
        holdings = self._judge_all(holdings, groups, moment)
        nodes = self.desk.gateway.nodes()
        begun, waiting = self._admit(holdings, nodes, moment)
        holdings += begun
        return ClusterView(moment.text, nodes, tuple(_holder(it) for it in holdings), waiting), holdings

    def _follow_all(self, moment: TickContext) -> list[Allocation]:
        with self.desk.database.read() as conn:
            tasks = store.active(conn) + store.released(conn)
            attempts = store.latest_attempts(conn, [task.task_id for task in tasks])
        holdings = []
        for task in tasks:
            moment.watch()
            attempt = attempts[task.task_id]
            still: Allocation | None = Allocation(task, attempt)
            with _apart(task.task_id):
                still = follow(self.desk, task, attempt, moment)
            holdings += [still] if still is not None else []
        return holdings

    def _judge_all(
        self, holdings: Sequence[Allocation], groups: Sequence[PlacementGroup], moment: TickContext
    ) -> list[Allocation]:
        judged = []
        for holding in holdings:
            claiming = with_claim(holding, groups)
            with _apart(holding.task.task_id):
                claiming = judge_wait(self.desk, claiming, groups, moment)
            judged.append(claiming)
        return judged

    def _admit(
        self, holdings: Sequence[Allocation], nodes: Sequence[Node], moment: TickContext
    ) -> tuple[list[Allocation], int]:
        """What it has begun, and how many wait still."""
        line = read_line(self.desk)
        if not line:
            return [], 0
        most = self.desk.options.max_running_tasks
        may_start = most - len(holdings) if most else None
        held = [holding.held for holding in holdings]
        enabled = self.desk.enabled_of({it.user for it in line})
        going = [as_queued(it) for it in line if it.user in enabled]
        decision = decide(going, held, nodes, now=moment.text, may_start=may_start)
        begun = []
        for task_id in decision.admitted:
            moment.watch()
            with _apart(task_id):
                holding = begin(self.desk, task_id, moment)
                begun += [holding] if holding is not None else []
        halted = {it.task_id: Waiting(WaitingCode.DISABLED) for it in line if it.user not in enabled}
        write_reasons(self.desk, line, {**decision.reasons, **halted}, moment)
        return begun, len(line) - len(decision.admitted)

    def _copy_logs(self, holdings: Sequence[Allocation], moment: TickContext) -> None:
        for holding in holdings:
            moment.watch()
            try:
                with _apart(holding.task.task_id):
                    copy_log(self.desk, holding)
            except RayUnreachable as error:
                logger.warning("The logs of running tasks are copied later: %s", error.message)
                return

    # --- Ray comes and goes -------------------------------------------------------------------------------
    def _ray_is_away(self, moment: TickContext, error: RayUnreachable) -> None:
        seen = self._seen() or ClusterView(moment.text)
        if self._away_since is None:
            self._away_since = seen.unreachable_since or moment.text
            logger.warning("Ray does not answer, and tasks stay as they are: %s", error.message)
        line = read_line(self.desk)
        write_reason_for_all(self.desk, line, Waiting(WaitingCode.RAY, {"since": self._away_since}), moment)
        problem = " ".join(part for part in (error.message, error.hint) if part)
        since = self._away_since
        self._show(replace(seen, seen_at=moment.text, queued=len(line), unreachable_since=since, problem=problem))

    def _ray_is_there(self, view: ClusterView) -> None:
        if self._away_since is not None:
            logger.info("Ray answers again; it did not since %s.", self._away_since)
            self._away_since = None
        self._show(view)

    def _seen(self) -> ClusterView | None:
        try:
            return self.picture.get()
        except redis.RedisError:
            return None

    def _show(self, view: ClusterView) -> None:
        try:
            self.picture.put(view)
        except redis.RedisError as error:
            logger.warning("The cluster is not shown: %s", error)


def _holder(holding: Allocation) -> Holder:
    task = holding.task
    return Holder(
        task.task_id, task.user, task.workload.value, task.state.value, task.demand.gpus, dict(holding.claim.gpus)
    )


@contextmanager
def _apart(task_id: str) -> Iterator[None]:
    """One task's trouble is not the others'. What is everybody's passes: Ray, the database, the end of this turn."""
    with logs.context(task_id=task_id):
        try:
            yield
        except (RayUnreachable, DatabaseUnavailable, Superseded, redis.RedisError):
            raise
        except ModelmillError as error:
            logger.warning("This task is looked after again at the next tick: %s", error.message)
        except Exception:  # a fault of ours in one task must not halt the queue
            logger.exception("This task cannot be looked after; the others are.")
