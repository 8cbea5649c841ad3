"""From a request for a plan to the plan: the work of the scheduler's actor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection

from app.kit.clock import from_text, to_text
from app.kit.errors import BadRequest
from app.kit.sql import Database
from app.nodes.model import Node
from app.video import store
from app.video.model.job import JobState, StageHost
from app.video.model.plan import Plan
from app.video.model.reader import Reader
from app.video.model.report import PlanRequest
from app.video.scheduling.contract import LIMIT_S
from app.video.scheduling.plan_validation import validate_plan
from app.video.scheduling.policy_messages import Decision
from app.video.scheduling.policy_runner import PolicyRunner
from app.video.scheduling.predictor import Prediction
from app.video.scheduling.source_limits import within_source
from app.video.service import orders
from app.video.service.counters import DECISION_SECONDS, DECISIONS
from app.video.service.jobs import Jobs
from app.video.service.planner_input import dag_info, list_unserved, numbers_only, planning_input
from app.video.service.report_reader import read_plan_result
from app.video.service.reports import require_authorized
from app.video.service.resources import Resources
from app.video.service.what_if import predictions
from app.video.store import DecisionRecord, StoredJob

GAP_S = 1.0
"""Minimum time between two plans of a job."""
FAILED_GAP_S = 10.0
"""After its policy raised or took too long: other jobs must not wait for it."""
FAILED = ("late", "raised")
BY_HAND = "by hand"
START = "start"
assert LIMIT_S < FAILED_GAP_S
_READER = Reader(BadRequest)


@dataclass(eq=False)
class Planner:
    """Plans jobs.

    Args:
        send: Enqueues the scheduling of the job of this uid, with the reason.
        policy_runner: Gives the one that runs policies; it is made with the first plan.
    """

    database: Database
    jobs: Jobs
    resources: Resources
    _: KW_ONLY
    send: Callable[[str, str], None]
    policy_runner: Callable[[], PolicyRunner]

    def ask(self, request: PlanRequest, *, node: str = "", user: str = "") -> None:
        """POST /node/get_plan: stores what the runner says of its source and its plan, and enqueues the scheduling.

        Args:
            request: One that is older than the newest of its job is ignored.
            node: The node that asks for a job on its own videos; empty: a user asks.
            user: The user that asks for a job of their own.

        Raises:
            BadRequest: It has not the right form.
            VideoJobNotFound: It is not theirs.
        """
        demand = _READER.mapping(request, "request", most=32)
        uid = _READER.text(demand.get("job_uid"), "job_uid")
        number = _READER.integer(demand.get("asked") or 0, "asked", least=0, most=1 << 30)
        why = _READER.name(demand.get("why") or "period", "why")[:32]
        columns: dict[str, Any] = {"asked": number}
        if demand.get("generator_output") is not None:
            output = _READER.mapping(demand["generator_output"], "generator_output", most=64)
            columns["generator_output"] = numbers_only(output)
        if demand.get("last_plan_result") is not None:
            columns["plan_result"] = read_plan_result(demand["last_plan_result"])
        with self.database.write() as conn:
            stored = require_authorized(store.lock(conn, uid), uid, node=node, user=user)
            if stored.job.state is JobState.DONE or (number and number < stored.asked and why != START):
                return
            store.change(conn, uid, **columns)
        self.send(uid, why)

    def schedule(self, uid: str, why: str, *, now: datetime) -> float:
        """Makes the job's policy decide, logs the decision, and puts the plan into the order of the job's node.

        A job is planned once a second at most: the first call that comes too early is to be repeated, the others are
        omitted. Of two at the same time the later wins. Nothing is done for a job that has ended or is unknown, nor
        while its own node is silent: its runner asks again, and until then nobody knows what it has.

        Args:
            why: What asked for it: start, source, period, late, fallback, node, wait, constraint, policy.

        Returns:
            Seconds after which it is to be called again, or 0.
        """
        claimed = self._claim(uid, now)
        if claimed is None:
            return 0.0
        if isinstance(claimed, float):
            return claimed
        job, seq = claimed.job, claimed.plan_seq
        if not self.resources.is_online(job.node, now):
            return 0.0
        resource_info = self.resources.info(job, now)
        if missing := list_unserved(job.dag, resource_info):
            self._note_unserved(claimed, missing, now)
            return 0.0
        with self.database.read() as conn:
            rows = store.measurements(conn, stages=job.dag.stages)
        decision = self.policy_runner().decide(
            planning_input(claimed, resource_info, rows, self.jobs.catalogue.kinds(), now)
        )
        DECISIONS.labels(job.policy, decision.outcome).inc()
        DECISION_SECONDS.observe(decision.took_ms / 1000)
        plan = replace(decision.plan, seq=seq, policy=job.policy) if decision.plan else None
        nodes = self.resources.nodes.access.seen_by(job.owner)
        hosts = self.resources.hosts_among(nodes, job.node, now)
        with self.database.write() as conn:
            changed_nodes = self._store_decision(conn, claimed, why, decision, plan, nodes, hosts, now)
        self._notify(uid, changed_nodes)
        return 0.0

    def give(self, user: str, uid: str, video_conf: object, flow_mapping: object, *, now: datetime) -> None:
        """POST /node/update_plan by hand: this plan from now on.

        Args:
            video_conf: as the user sent it, any JSON value.
            flow_mapping: as the user sent it, likewise.

        Raises:
            VideoJobNotFound, JobEnded: Nothing to plan.
            BadPlan: It cannot be run.
        """
        job = self.jobs.get(user, uid)
        info = self.resources.info(job, now)
        facts = dag_info(job.dag, job.stages, self.jobs.catalogue.kinds())
        plan = validate_plan(video_conf, flow_mapping, dag=facts, resource_info=info, policy=BY_HAND)
        nodes = self.resources.nodes.access.seen_by(job.owner)
        hosts = self.resources.hosts_among(nodes, job.node, now)
        with self.jobs.locked(user, uid) as (conn, stored):
            conf = within_source(plan.video_conf, stored.job.generator_output)
            plan = replace(plan, seq=stored.plan_seq + 1, video_conf=conf)
            store.change(conn, uid, plan_seq=plan.seq, claimed_at=to_text(now))
            reason = "Its user gave this plan."
            decided = DecisionRecord(to_text(now), plan.seq, BY_HAND, BY_HAND, "new", reason, 0.0, "", plan.to_json())
            store.add_decision(conn, uid, decided)
            changed_nodes = self._put_plan(conn, uid, plan, nodes, hosts, now)
        self._notify(uid, changed_nodes)

    def what_if(self, user: str, body: Mapping[str, Any], *, now: datetime) -> list[Prediction]:
        """{job_uid} or {node, video_id, dag}, and what to change of the resource picture: {nodes: {name: {up_mbps,
        down_mbps, cpu_ratio, online}}, video_conf: {…}, model_id}. Fastest first.

        Raises:
            BadRequest: The body has another form.
            VideoJobNotFound, VideoNotFound: There is no such job or video.
            BadDag: The DAG is invalid.
        """
        return predictions(self.jobs, self.resources, user, body, now)

    def _claim(self, uid: str, now: datetime) -> StoredJob | float | None:
        """The job with the number of its next plan; or the seconds to wait for that; or None when it has ended or a
        call waits already."""
        with self.database.write() as conn:
            stored = store.lock(conn, uid)
            if stored is None or stored.job.state is JobState.DONE:
                return None
            gap = _find_gap(conn, stored)
            claimed_at = from_text(stored.claimed_at) if stored.claimed_at else now - gap
            free_at = claimed_at + gap
            if abs(now - claimed_at) < gap:  # of two threads the second may have looked at the clock before the first
                if stored.due_at is not None and to_text(now) < stored.due_at <= to_text(free_at):
                    return None
                store.change(conn, uid, due_at=to_text(free_at))
                return (free_at - now).total_seconds()
            seq = stored.plan_seq + 1
            store.change(conn, uid, plan_seq=seq, claimed_at=to_text(now), due_at=None)
        return replace(stored, plan_seq=seq)

    def _note_unserved(self, claimed: StoredJob, missing: list[str], now: datetime) -> None:
        """It cannot be planned yet; it is when a node comes to serve the stage."""
        reason = f"No node serves {', '.join(missing)} yet."
        with self.database.write() as conn:
            stored = store.lock(conn, claimed.job.uid)
            if stored is None or stored.job.state is not JobState.UNSCHED or stored.job.reason == reason:
                return
            store.change(conn, stored.job.uid, reason=reason, runner_trouble="", cannot_run=False, silence="")
            store.add_event(conn, stored.job.uid, to_text(now), type="Note", message=reason)
        self.jobs.announce(claimed.job.uid)

    def _store_decision(
        self,
        conn: Connection,
        claimed: StoredJob,
        why: str,
        decision: Decision,
        plan: Plan | None,
        nodes: list[Node],
        hosts: tuple[StageHost, ...],
        now: datetime,
    ) -> set[str]:
        """Logs the decision and activates the plan, unless another was faster. Returns the nodes to notify."""
        uid, seq, policy = claimed.job.uid, claimed.plan_seq, claimed.job.policy
        stored = store.lock(conn, uid)
        if stored is None or stored.job.state is JobState.DONE:
            return set()
        is_late = stored.job.policy != policy or (stored.job.plan is not None and stored.job.plan.seq > seq)
        reason = f"{decision.reason} It was overtaken meanwhile.".strip() if is_late else decision.reason
        shown = plan.to_json() if plan and not is_late else None
        store.add_decision(
            conn,
            uid,
            DecisionRecord(
                to_text(now), seq, policy, why, decision.outcome, reason, decision.took_ms, decision.inputs_hash, shown
            ),
        )
        if is_late:
            return set()
        store.change(conn, uid, memory=dict(decision.state))
        return self._put_plan(conn, uid, plan, nodes, hosts, now)

    def _put_plan(
        self,
        conn: Connection,
        uid: str,
        plan: Plan | None,
        nodes: list[Node],
        hosts: tuple[StageHost, ...],
        now: datetime,
    ) -> set[str]:
        """Activates the plan; None: the last one stays. Returns the nodes to notify."""
        if plan is not None:
            store.change(conn, uid, plan=plan.to_json())
        stored = store.get(conn, uid)
        assert stored is not None and stored.job.state is not JobState.DONE
        if stored.job.state is JobState.UNSCHED and orders.can_run(stored.job, nodes, now):
            assert stored.job.plan is not None
            message = start_message(stored.job.plan.seq, stored.job.plan.policy or stored.job.policy)
            store.enter(conn, stored, JobState.EXEC, at=to_text(now), message=message)
        return orders.order_job(self.resources.nodes, conn, stored.job, hosts) if plan is not None else set()

    def _notify(self, uid: str, changed_nodes: set[str]) -> None:
        for node in changed_nodes:
            self.resources.nodes.notify(node)
        self.jobs.announce(uid)


def start_message(seq: int, policy: str) -> str:
    """Returns the text of the event of a job that starts with the plan of this number."""
    return f"Plan {seq}, {policy if policy == BY_HAND else f'by {policy}'}."


def _find_gap(conn: Connection, stored: StoredJob) -> timedelta:
    """Returns the minimum time until this job's next plan."""
    last = store.last_decision(conn, stored.job.uid)
    has_failed = last is not None and last.outcome in FAILED and last.policy == stored.job.policy
    return timedelta(seconds=FAILED_GAP_S if has_failed else GAP_S)
