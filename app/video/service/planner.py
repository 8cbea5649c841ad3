"""From a demand for a plan to the plan: what the scheduler's actor does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
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
from app.video.scheduling.plan_validation import judged
from app.video.scheduling.policy_messages import Decision
from app.video.scheduling.policy_runner import PolicyRunner
from app.video.scheduling.predictor import Prediction
from app.video.service import orders
from app.video.service.counters import DECISION_SECONDS, DECISIONS
from app.video.service.jobs import Jobs
from app.video.service.planner_input import dag_info, figures, question_of, unserved
from app.video.service.reports import checked, read_plan_result
from app.video.service.resources import Resources
from app.video.service.what_if import predictions
from app.video.store import Decided, Kept

GAP_S = 1.0
"""So long is between two plans of a job."""
LAME_GAP_S = 10.0
"""And that long after its policy raised or took too long: others must not wait for it."""
LAME = ("late", "raised")
BY_HAND = "by hand"
START = "start"
assert LIMIT_S < LAME_GAP_S
_READER = Reader(BadRequest)


class Planner:
    """send(uid, why): enqueue the scheduling of a job. desk: made when the first plan is asked for."""

    def __init__(
        self,
        database: Database,
        jobs: Jobs,
        resources: Resources,
        *,
        send: Callable[[str, str], None],
        desk: Callable[[], PolicyRunner],
    ) -> None:
        self.database = database
        self.jobs = jobs
        self.resources = resources
        self.send = send
        self.desk = desk

    def ask(self, request: PlanRequest, *, node: str = "", user: str = "", now: datetime) -> None:  # noqa: ARG002
        """POST /node/get_plan: note what the runner says and enqueue. A demand that is older than one that was noted is
        ignored. node: that asks; or a user, of their own jobs. Raises BadRequest, VideoJobNotFound."""
        given = _READER.mapping(request, "request", most=32)
        uid = _READER.text(given.get("job_uid"), "job_uid")
        asked = _READER.whole(given.get("asked") or 0, "asked", least=0, most=1 << 30)
        why = _READER.name(given.get("why") or "period", "why")[:32]
        noted: dict[str, Any] = {"asked": asked}
        if given.get("generator_output") is not None:
            output = _READER.mapping(given["generator_output"], "generator_output", most=64)
            noted["generator_output"] = figures(output)
        if given.get("last_plan_result") is not None:
            noted["plan_result"] = read_plan_result(given["last_plan_result"])
        with self.database.write() as conn:
            kept = checked(store.lock(conn, uid), uid, node=node, user=user)
            if kept.job.state is JobState.DONE or (asked and asked < kept.asked and why != START):
                return
            store.change(conn, uid, **noted)
        self.send(uid, why)

    def schedule(self, uid: str, why: str, *, now: datetime) -> float:
        """What the actor does: ask the policy, write the decision down and the plan into the order of the job's node.
        Not more often than once a second for a job: what comes too early is done by the one that comes then. Of two at
        the same time the later wins. Ended or unknown jobs, and those whose own node is silent: nothing; its runner
        asks again, and until then nobody knows what it has.

        0, or seconds after which it is to be called again: the first that comes too early is told so."""
        claimed = self._claim(uid, now)
        if claimed is None:
            return 0.0
        if isinstance(claimed, float):
            return claimed
        job, seq = claimed.job, claimed.plan_seq
        if not self.resources.is_heard(job.node, now):
            return 0.0
        info = self.resources.info(job, now)
        if missing := unserved(job.dag, info):
            self._wait(claimed, missing, now)
            return 0.0
        with self.database.read() as conn:
            rows = store.measurements(conn, stages=job.dag.stages)
        decision = self.desk().decide(question_of(claimed, info, rows, self.jobs.catalogue.kinds(), now))
        DECISIONS.labels(job.policy, decision.outcome).inc()
        DECISION_SECONDS.observe(decision.took_ms / 1000)
        plan = replace(decision.plan, seq=seq, policy=job.policy) if decision.plan else None
        nodes = self.resources.nodes.seen_by(job.owner)
        hosts = self.resources.hosts_among(nodes, job.node, now)
        with self.database.write() as conn:
            told = self._store(conn, claimed, why, decision, plan, nodes, hosts, now)
        self._tell(uid, told)
        return 0.0

    def give(self, user: str, uid: str, video_conf: object, flow_mapping: object, *, now: datetime) -> None:
        """POST /node/update_plan by hand: this plan now. Raises VideoJobNotFound, JobEnded, BadPlan."""
        job = self.jobs.get(user, uid)
        info = self.resources.info(job, now)
        facts = dag_info(job.dag, job.stages, self.jobs.catalogue.kinds())
        plan = judged(video_conf, flow_mapping, dag=facts, resource_info=info, policy=BY_HAND)
        nodes = self.resources.nodes.seen_by(job.owner)
        hosts = self.resources.hosts_among(nodes, job.node, now)
        with self.jobs.going(user, uid) as (conn, kept):
            plan = replace(plan, seq=kept.plan_seq + 1)
            store.change(conn, uid, plan_seq=plan.seq, claimed_at=to_text(now))
            said = "Its user gave this plan."
            decided = Decided(to_text(now), plan.seq, BY_HAND, BY_HAND, "new", said, 0.0, "", plan.to_json())
            store.add_decision(conn, uid, decided)
            told = self._put(conn, uid, plan, nodes, hosts, now)
        self._tell(uid, told)

    def what_if(self, user: str, body: Mapping[str, Any], *, now: datetime) -> list[Prediction]:
        """{job_uid} or {node, video_id, dag}, and what to change of the resource picture: {nodes: {name: {up_mbps,
        down_mbps, cpu_ratio, online}}, video_conf: {…}, model_id}. Fastest first. Raises BadRequest, VideoJobNotFound,
        VideoNotFound, BadDag."""
        return predictions(self.jobs, self.resources, user, body, now)

    def _claim(self, uid: str, now: datetime) -> Kept | float | None:
        """The job with the number of its next plan; or how long to wait for that; or nothing, when it has ended or
        somebody waits already."""
        with self.database.write() as conn:
            kept = store.lock(conn, uid)
            if kept is None or kept.job.state is JobState.DONE:
                return None
            free_at = _free_at(conn, kept)
            if kept.claimed_at is not None and to_text(now) >= kept.claimed_at and now < free_at:
                if kept.due_at is not None and to_text(now) < kept.due_at <= to_text(free_at):
                    return None
                store.change(conn, uid, due_at=to_text(free_at))
                return (free_at - now).total_seconds()
            seq = kept.plan_seq + 1
            store.change(conn, uid, plan_seq=seq, claimed_at=to_text(now), due_at=None)
        return replace(kept, plan_seq=seq)

    def _wait(self, claimed: Kept, missing: list[str], now: datetime) -> None:
        """It cannot be planned yet. Whoever comes to serve the stage has it planned then."""
        said = f"No node serves {', '.join(missing)} yet."
        with self.database.write() as conn:
            kept = store.lock(conn, claimed.job.uid)
            if kept is None or kept.job.state is not JobState.UNSCHED or kept.job.reason == said:
                return
            store.change(conn, kept.job.uid, reason=said)
            store.add_event(conn, kept.job.uid, to_text(now), type="Note", message=said)
        self.jobs.announce(claimed.job.uid)

    def _store(
        self,
        conn: Connection,
        claimed: Kept,
        why: str,
        decision: Decision,
        plan: Plan | None,
        nodes: list[Node],
        hosts: tuple[StageHost, ...],
        now: datetime,
    ) -> set[str]:
        """Names of the nodes that must hear of it. What was overtaken is written into the log only."""
        uid, seq, policy = claimed.job.uid, claimed.plan_seq, claimed.job.policy
        kept = store.lock(conn, uid)
        if kept is None or kept.job.state is JobState.DONE:
            return set()
        is_late = kept.job.policy != policy or (kept.job.plan is not None and kept.job.plan.seq > seq)
        reason = f"{decision.reason} It was overtaken meanwhile.".strip() if is_late else decision.reason
        shown = plan.to_json() if plan and not is_late else None
        store.add_decision(
            conn,
            uid,
            Decided(
                to_text(now), seq, policy, why, decision.outcome, reason, decision.took_ms, decision.inputs_hash, shown
            ),
        )
        if is_late:
            return set()
        store.change(conn, uid, memory=dict(decision.state))
        return self._put(conn, uid, plan, nodes, hosts, now)

    def _put(
        self,
        conn: Connection,
        uid: str,
        plan: Plan | None,
        nodes: list[Node],
        hosts: tuple[StageHost, ...],
        now: datetime,
    ) -> set[str]:
        """plan: None: the last one stays."""
        if plan is not None:
            store.change(conn, uid, plan=plan.to_json())
        kept = store.get(conn, uid)
        assert kept is not None and kept.job.state is not JobState.DONE
        if kept.job.state is JobState.UNSCHED and orders.is_carried(kept.job, nodes, now):
            assert kept.job.plan is not None
            said = f"Plan {kept.job.plan.seq}, by {kept.job.plan.policy or kept.job.policy}."
            store.enter(conn, kept, JobState.EXEC, at=to_text(now), message=said)
        return orders.put_job(self.resources.nodes, conn, kept.job, hosts) if plan is not None else set()

    def _tell(self, uid: str, told: set[str]) -> None:
        for node in told:
            self.resources.nodes.nudge(node)
        self.jobs.announce(uid)


def _free_at(conn: Connection, kept: Kept) -> datetime:
    """When the next plan of this job may be asked for."""
    if kept.claimed_at is None:
        return from_text("1970-01-01T00:00:00.000Z")
    last = store.last_decision(conn, kept.job.uid)
    is_lame = last is not None and last.outcome in LAME and last.policy == kept.job.policy
    return from_text(kept.claimed_at) + timedelta(seconds=LAME_GAP_S if is_lame else GAP_S)
