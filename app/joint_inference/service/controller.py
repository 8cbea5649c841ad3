"""The controllers: compare the desired state of a service with the reports of its nodes, and order the difference.

The joint-inference and the downstream controller are the two halves of `reconcile`: condition and orders change in one
transaction. The upstream controller is Reports.note. All are idempotent.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection

from app.joint_inference import store
from app.joint_inference.hard_examples.base import BadParameter, UnknownAlgorithm
from app.joint_inference.model.fleet import SUMMED_AT, fleet_plan, summed, task_info_of
from app.joint_inference.model.reconciliation import ObservedState, ServicePlan, kept_model, key_of, plan_service
from app.joint_inference.model.resource import PLURAL, Role, Service
from app.joint_inference.model.rollout import Rollout
from app.joint_inference.model.state import change_of_model, with_trouble
from app.joint_inference.model.status import Condition, ConditionType, Reason, conditions_after, current_of, metrics_of
from app.joint_inference.service.alerts import note_trouble
from app.joint_inference.service.model_pairs import mismatch
from app.joint_inference.service.reports import Reports
from app.joint_inference.service.rollouts import condition_with, next_rollout, note_change, service_event
from app.joint_inference.service.services import Services
from app.joint_inference.worker_options import algorithm_of, cloud_options, edge_options
from app.kit.clock import from_text, to_text
from app.kit.sql import publish
from app.model_registry.service import Model, Models
from app.nodes.model import Node, Operation, Order, WorkKey
from app.nodes.service import Nodes
from app.results.store import sink_trouble

HEARTBEAT_S = 60
"""How often each service is reconciled when nothing happens; its conditions say when that was."""
IMPATIENT_S = 5
"""How often a service that does not run is reconciled: a model or a node may have been added."""
AT_ONCE = 200
WATCHED_FOR_S = 3600
"""How long watchers can still see that a service is gone."""
HasDataset = Callable[[str, str], bool]
"""user, path → whether the path exists among what they may read."""


@dataclass(frozen=True)
class Reconciliation:
    """What follows for a service from what it refers to."""

    plan: ServicePlan
    warning: Condition | None
    rollout: Rollout | None
    reported: Mapping[str, Any]
    """The last taskInfo, of all its nodes together."""

    def reported_after(self, service: Service) -> Mapping[str, Any]:
        """What is stored of it."""
        if not service.specification.edge.selector:
            return service.reported
        return {**self.reported, **{key: at for key, at in service.reported.items() if key == SUMMED_AT}}


class Controller:
    """Makes what runs on nodes match what services say.

    Args:
        models: registered networks.
        has_dataset: whether what a service names is there.
    """

    def __init__(
        self, services: Services, reports: Reports, nodes: Nodes, models: Models, has_dataset: HasDataset
    ) -> None:
        self.database = services.database
        self.services = services
        self.reports = reports
        self.nodes = nodes
        self.models = models
        self.has_dataset = has_dataset

    def reconcile(self, uid: str, *, now: datetime) -> None:
        """Reconcile one service. Idempotent."""
        with self.database.read() as conn:
            service = store.by_uid(conn, uid)
            looked_at = store.looked_at(conn, uid)
            orders = self.nodes.orders_of(conn, PLURAL, uid)
        if service is None or service.gone_at is not None:
            return
        if service.deleted_at is not None:
            self._end(service, now)
            return
        nodes_to_notify = self._write(service, self._plan(service, orders, now), now, looked_at)
        if nodes_to_notify is None:
            self.services.wake(uid)
            return
        for node in nodes_to_notify:
            self.nodes.notify(node)

    def due(self, now: datetime) -> list[str]:
        """The services to reconcile: those that do not run often, the others occasionally. Each is returned once, and
        again after its period."""
        quiet, impatient = (to_text(now - timedelta(seconds=s)) for s in (HEARTBEAT_S, IMPATIENT_S))
        with self.database.read() as conn:
            uids_due = store.looked_at_before(conn, quiet, AT_ONCE)
            uids_due += store.not_settled(conn, impatient, AT_ONCE)
        uids = list(dict.fromkeys(uids_due))
        if uids:
            with self.database.write() as conn:
                store.note_look(conn, uids, to_text(now))
        return uids

    def forget_gone(self, now: datetime) -> None:
        """Delete services that are long gone, and their pictures once more: the object store may have been away."""
        with self.database.read() as conn:
            uids = store.gone_before(conn, to_text(now - timedelta(seconds=WATCHED_FOR_S)))
        for uid in uids:
            self.reports.forget(uid)
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
            self.reports.forget(service.uid)

    def _plan(self, service: Service, orders: list[Order], now: datetime) -> Reconciliation:
        specification = service.specification
        edge_model = self.models.find(service.owner, specification.edge.model, now=now)
        cloud_model = self.models.find(service.owner, specification.cloud.model, now=now)
        problem, warning = self._check(service, edge_model, cloud_model)
        warning = warning or self._drift(service)
        cloud_node = self.nodes.access.find_for(service.owner, specification.cloud.node)
        edge_orders, cloud_orders = (
            {order.node: order for order in orders if order.key == key_of(service, role)}
            for role in (Role.EDGE, Role.CLOUD)
        )
        placements = self.services.placements(service)
        card = edge_model.card if edge_model else None
        cloud_card = cloud_model.card if cloud_model else None
        withdrawn = frozenset(role for role, known in ((Role.EDGE, card), (Role.CLOUD, cloud_card)) if known is None)
        cloud_card = cloud_card or kept_model(service, cloud_orders.get(specification.cloud.node))
        rollout = next_rollout(service, card if problem is None else None, placements, now)
        plans = {}
        for placed, node in placements:
            name = placed.specification.edge.node
            if card is None:
                edge_card = kept_model(service, edge_orders.get(name))
            else:
                edge_card = rollout.model_of(name) if rollout is not None else card
            state = ObservedState(
                now=now,
                edge_model=edge_card,
                cloud_model=cloud_card,
                edge_node=node,
                cloud_node=cloud_node,
                edge_order=edge_orders.get(name),
                withheld=self.nodes.access.hidden_from(service.owner, name),
                former=rollout.compared_on(name) if rollout is not None else None,
                problem=problem,
                warning=warning,
                withdrawn=withdrawn,
            )
            plans[name] = plan_service(placed, state)
        is_fleet = bool(specification.edge.selector)
        plan = fleet_plan(service, plans) if is_fleet else plans[specification.edge.node]
        reported = summed([placed.reported for placed, _ in placements]) if is_fleet else service.reported
        with self.database.read() as conn:
            trouble = sink_trouble(conn, service.uid)
        condition = with_trouble(condition_with(rollout, plan.condition), trouble)
        return Reconciliation(replace(plan, condition=condition), warning, rollout, reported)

    def _check(
        self, service: Service, edge_model: Model | None, cloud_model: Model | None
    ) -> tuple[Condition | None, Condition | None]:
        """What is wrong with a service, and what to warn of, whatever its nodes report."""
        specification = service.specification
        for worker in (specification.edge, specification.cloud):
            dataset = worker.parameters.get("dataset", "")
            if dataset and not self.has_dataset(service.owner, dataset):
                message = f"There is no dataset {dataset!r} for the {worker.role} worker in the data home."
                return Condition(ConditionType.FAILED, Reason.DATASET_NOT_FOUND, message), None
        try:
            warning = _warning(service)
            return mismatch((specification.edge, edge_model), (specification.cloud, cloud_model)), warning
        except UnknownAlgorithm as error:
            message = f"{error.message} {error.hint}".strip()
            return Condition(ConditionType.FAILED, Reason.ALGORITHM_NOT_FOUND, message), None
        except BadParameter as error:
            message = f"{error.message} {error.hint}".strip()
            return Condition(ConditionType.FAILED, Reason.BAD_PARAMETERS, message), None

    def _drift(self, service: Service) -> Condition | None:
        with self.database.read() as conn:
            drift = store.drift_of(conn, service.uid)
        message = drift.message if drift is not None else ""
        return Condition(ConditionType.WARNING, Reason.DRIFT, message) if message else None

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
            if store.looked_at(conn, service.uid) != looked_at or fresh.rollout != service.rollout:
                return None
            for role in Role:
                nodes_to_notify |= self._order(conn, service, role, plan, now)
            fields = {
                "status": _status(fresh, result, now),
                "rollout": note_change(conn, fresh, result.rollout, now),
                "reported": result.reported_after(fresh),
            }
            changes = {name: value for name, value in fields.items() if value != getattr(fresh, name)}
            store.note_look(conn, [service.uid], to_text(now))
            if changes:
                store.change_service(conn, fresh, **changes)
            if "status" in changes:
                _publish(conn, fresh, plan.condition, now)
            note_trouble(conn, fresh, fields["status"], now)
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
        told = [change for change in changes if change]
        if told:
            further = f" So it is on {len(told) - 1} more nodes." if len(told) > 1 else ""
            message = f"{told[0]}{further}"
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


def _warning(service: Service) -> Condition | None:
    """A warning about the algorithm. Users' own programs are not checked. Raises UnknownAlgorithm, BadParameter."""
    specification = service.specification
    if specification.cloud.is_builtin:
        cloud_options(specification.cloud.parameters)
    if not specification.edge.is_builtin:
        return None
    options = edge_options(specification.hard_example_parameters)
    why = algorithm_of(specification).never(candidate_threshold=options.predictor.candidate_threshold)
    return Condition(ConditionType.WARNING, Reason.NEVER_HARD, why) if why else None


def _status(service: Service, result: Reconciliation, now: datetime) -> dict[str, Any]:
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
    is_same = _timeless(status) == _timeless(service.status)
    return dict(service.status) if is_same else status


def _publish(conn: Connection, service: Service, condition: Condition, now: datetime) -> None:
    """Tells its user that it came into another state. That a new one waits is no news."""
    last = current_of(service.status)
    before = str(last["type"]) if last is not None else ConditionType.PENDING.value
    if condition.type.value == before:
        return
    facts = {"condition": condition.type.value, "code": str(condition.reason), "reason": condition.message}
    publish(conn, service_event(service, f"service.{condition.type.value.lower()}", to_text(now), facts))


def _timeless(status: Any) -> Any:
    conditions = [{k: v for k, v in c.items() if k != "lastHeartbeatTime"} for c in status.get("conditions", ())]
    return {**status, "conditions": conditions}
