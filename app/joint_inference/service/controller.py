"""The controllers: compare the desired state of a service with the reports of its nodes, and order the difference.

The joint-inference and the downstream controller are the two halves of `reconcile`: condition and orders change in one
transaction. The upstream controller is Reports.note. All are idempotent.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection

from app.joint_inference import store
from app.joint_inference.model.fleet import task_info_of
from app.joint_inference.model.reconciliation import ServicePlan, key_of
from app.joint_inference.model.resource import PLURAL, Role, Service
from app.joint_inference.model.state import change_of_model
from app.joint_inference.model.status import Condition, ConditionType, conditions_after, current_of, metrics_of
from app.joint_inference.service.alerts import note_trouble
from app.joint_inference.service.hard_samples import HardSamples
from app.joint_inference.service.reports import Reports
from app.joint_inference.service.rollouts import note_change, service_event
from app.joint_inference.service.service_planner import Reconciliation, ServicePlanner
from app.joint_inference.service.services import Services
from app.kit.clock import from_text, to_text
from app.kit.sql import publish
from app.kit.text.json_values import JsonObject
from app.nodes.model import Node, Operation, Order, WorkKey
from app.nodes.service import Nodes

HEARTBEAT_S = 60
"""How often each service is reconciled when nothing happens; its conditions say when that was."""
IMPATIENT_S = 5
"""How often a service that does not run is reconciled: a model or a node may have been added."""
AT_ONCE = 200
WATCHED_FOR_S = 3600
"""How long watchers can still see that a service is gone."""


class Controller:
    """Makes what runs on nodes match what services say.

    Args:
        planner: says what is to run.
    """

    def __init__(
        self, services: Services, reports: Reports, samples: HardSamples, nodes: Nodes, planner: ServicePlanner
    ) -> None:
        self.database = services.database
        self.services = services
        self.reports = reports
        self.samples = samples
        self.nodes = nodes
        self.planner = planner

    def reconcile(self, uid: str, *, now: datetime) -> None:
        """Reconcile one service. Idempotent."""
        with self.database.read() as conn:
            service = store.by_uid(conn, uid)
            looked_at = store.find_last_look(conn, uid)
            orders = self.nodes.orders_of(conn, PLURAL, uid)
        if service is None or service.gone_at is not None:
            return
        if service.deleted_at is not None:
            self._end(service, now)
            return
        nodes_to_notify = self._write(service, self.planner.plan(service, orders, now), now, looked_at)
        if nodes_to_notify is None:
            self.services.wake(uid)
            return
        for node in nodes_to_notify:
            self.nodes.notify(node)

    def due(self, now: datetime) -> list[str]:
        """The services to reconcile: those that do not run often, the others occasionally. Each is returned once, and
        again after its period."""
        quiet, impatient = (to_text(now - timedelta(seconds=s)) for s in (HEARTBEAT_S, IMPATIENT_S))
        latest = to_text(now + timedelta(seconds=HEARTBEAT_S))
        with self.database.read() as conn:
            uids_due = store.looked_at_before(conn, quiet, AT_ONCE, latest=latest)
            uids_due += store.not_settled(conn, impatient, AT_ONCE)
        uids = list(dict.fromkeys(uids_due))
        if uids:
            with self.database.write() as conn:
                store.note_look(conn, uids, to_text(now))
        return uids

    def forget_gone(self, now: datetime) -> None:
        """Delete services that are long gone, and their pictures once more: the object store may have been away."""
        with self.database.read() as conn:
            uids = store.list_gone_before(conn, to_text(now - timedelta(seconds=WATCHED_FOR_S)))
        for uid in uids:
            self._forget(uid)
        with self.database.write() as conn:
            store.forget(conn, uids)

    def node_changed(self, _: Node, keys: Collection[WorkKey]) -> None:
        """Listener of nodes: reconcile their services soon."""
        for uid in {key.uid for key in keys if key.kind == PLURAL}:
            self.services.wake(uid)

    def node_permitted(self, _: str, keys: Collection[WorkKey]) -> None:
        """Listener of nodes: end at once what users run there who no longer may, and begin what selects it now."""
        with self.database.read() as conn:
            selecting = store.selecting(conn)
        for uid in {*selecting, *(key.uid for key in keys if key.kind == PLURAL)}:
            self.services.wake(uid)

    def node_replaced(self, _: str, keys: Collection[WorkKey]) -> None:
        """Listener of nodes: the evicted machine's worker continues, and must not be answered any more."""
        for uid in {key.uid for key in keys if key.kind == PLURAL}:
            self.services.renew_secret(uid)

    def _end(self, service: Service, now: datetime) -> None:
        """Withdraw its orders; once all nodes have acknowledged that, the service is gone."""
        with self.database.write() as conn:
            fresh = store.lock(conn, service.uid)
            if fresh is None or fresh.gone_at is not None:
                return
            nodes_to_notify = self.nodes.withdraw(conn, PLURAL, service.uid)
            store.note_look(conn, [service.uid], to_text(now))
            is_gone = not self.nodes.orders_of(conn, PLURAL, service.uid)
            if is_gone:
                store.change_service(conn, fresh, gone_at=to_text(now))
        for node in nodes_to_notify:
            self.nodes.notify(node)
        if is_gone:
            self.services.announce()
            self._forget(service.uid)

    def _forget(self, uid: str) -> None:
        self.reports.forget(uid)
        self.samples.forget(uid)

    def _write(self, service: Service, result: Reconciliation, now: datetime, looked_at: str | None) -> set[str] | None:
        """Store condition and orders, unless the service has changed meanwhile.

        Args:
            service: as it was when this started.
            result: what follows for it.
            now: the time.
            looked_at: when it was last reconciled before this started.

        Returns:
            The names of the nodes to notify; None: it was reconciled by another meanwhile, and nothing was done.
        """
        plan, nodes_to_notify = result.plan, set[str]()
        with self.database.write() as conn:
            fresh = store.lock(conn, service.uid)
            if fresh is None or fresh.deleted_at is not None or fresh.generation != service.generation:
                return nodes_to_notify
            if store.find_last_look(conn, service.uid) != looked_at or fresh.rollout != service.rollout:
                return None
            for role in Role:
                nodes_to_notify |= self._order(conn, service, role, plan, now)
            fields = {
                "status": _build_status(fresh, result, now),
                "rollout": note_change(conn, fresh, result.rollout, now),
                "reported": result.reported_after(fresh),
            }
            changes = {name: value for name, value in fields.items() if value != getattr(fresh, name)}
            store.note_look(conn, [service.uid], to_text(now))
            if changes:
                store.change_service(conn, fresh, **changes)
            if "status" in changes:
                _publish(conn, fresh, plan.condition, now)
            note_trouble(conn, fresh, plan.condition, now)
        if changes:
            self.services.announce()
        return nodes_to_notify

    def _order(self, conn: Connection, service: Service, role: Role, plan: ServicePlan, now: datetime) -> set[str]:
        """Order what the plan has for this worker, and withdraw what is no longer to run."""
        key = key_of(service, role)
        contents = {node: content for (part, node), content in plan.orders.items() if part is role}
        present = {
            order.node: order
            for order in self.nodes.orders_of(conn, PLURAL, service.uid)
            if order.key == key and order.operation is not Operation.DELETE
        }
        kept = {node for node, order in present.items() if self._is_kept(service, role, order, plan, contents)}
        nodes_to_notify = set(self.nodes.withdraw(conn, PLURAL, service.uid, role.value, but=kept))
        changes = []
        for node, content in contents.items():
            is_new = self.nodes.order(
                conn,
                node,
                key,
                namespace=service.namespace,
                name=service.name,
                generation=service.generation,
                content=content.to_json(),
            )
            former = present[node].content if node in present else None
            nodes_to_notify |= {node} if is_new else set()
            changes += [change_of_model(content.worker, former["model"], content.model)] if is_new and former else []
        effective = [change for change in changes if change]
        if effective:
            further = f" So it is on {len(effective) - 1} more nodes." if len(effective) > 1 else ""
            message = f"{effective[0]}{further}"
            store.add_event(conn, service.uid, to_text(now), type="Changed", reason="ModelChanged", message=message)
        return nodes_to_notify

    @staticmethod
    def _is_kept(service: Service, role: Role, order: Order, plan: ServicePlan, contents: Collection[str]) -> bool:
        """A node's worker goes when it is no longer of this service; and one of an older generation when nothing takes
        its place, for an edge worker waits for the new cloud's."""
        if order.node in contents:
            return True
        is_failed = plan.condition.type is ConditionType.FAILED
        is_stale = order.generation != service.generation
        if order.node in plan.nodes[role]:
            return not (is_stale and is_failed)
        return is_stale and not is_failed and not contents


def _build_status(service: Service, result: Reconciliation, now: datetime) -> JsonObject:
    """The new status; the former one when nothing has changed and no heartbeat is due."""
    at, plan = to_text(now), result.plan
    is_fleet = bool(service.specification.edge.selector)
    metrics = {"metrics": metrics_of(task_info_of(result.reported))} if is_fleet and result.reported else {}
    before = service.status.get("conditions", ())
    status = {
        **service.status,
        "startTime": service.status.get("startTime") or at,
        "conditions": conditions_after(before, plan.condition, result.warning, at),
        "active": plan.active,
        "failed": plan.failed,
        **metrics,
    }
    last = current_of(service.status)
    if last is None or (now - from_text(last["lastHeartbeatTime"])).total_seconds() >= HEARTBEAT_S:
        return status
    is_same = _remove_times(status) == _remove_times(service.status)
    return dict(service.status) if is_same else status


def _publish(conn: Connection, service: Service, condition: Condition, now: datetime) -> None:
    """Tells its user that it came into another state. That a new one waits is no news."""
    last = current_of(service.status)
    before = str(last["type"]) if last is not None else ConditionType.PENDING.value
    if condition.type.value == before:
        return
    facts = {"condition": condition.type.value, "code": str(condition.reason), "reason": condition.message}
    publish(conn, service_event(service, f"service.{condition.type.value.lower()}", to_text(now), facts))


def _remove_times(status: Any) -> Any:
    conditions = [{k: v for k, v in c.items() if k != "lastHeartbeatTime"} for c in status.get("conditions", ())]
    return {**status, "conditions": conditions}
