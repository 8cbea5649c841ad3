"""The controllers: compare the desired state of a service with the reports of its nodes, and order the difference.

The joint-inference and the downstream controller are the two halves of `reconcile`: condition and orders change in one
transaction. The upstream controller is Reports.note. All are idempotent.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection

from app.joint_inference import store
from app.joint_inference.hard_examples.base import BadParameter, UnknownAlgorithm
from app.joint_inference.model.reconciliation import ObservedState, ServicePlan, key_of, plan_service
from app.joint_inference.model.resource import PLURAL, Role, Service
from app.joint_inference.model.state import change_of_model
from app.joint_inference.model.status import Condition, ConditionType, Reason, conditions_after, current_of
from app.joint_inference.service.model_pairs import mismatch
from app.joint_inference.service.reports import Reports
from app.joint_inference.service.services import Services
from app.joint_inference.worker_options import algorithm_of, cloud_options, edge_options
from app.kit.clock import from_text, to_text
from app.kit.sql import Event, publish
from app.model_registry.service import Model, Models
from app.nodes.model import Node, Order, WorkKey
from app.nodes.service import Nodes

HEARTBEAT_S = 60
"""How often each service is reconciled when nothing happens; its conditions say when that was."""
IMPATIENT_S = 5
"""How often a service that does not run is reconciled: a model or a node may have been added."""
AT_ONCE = 200
WATCHED_FOR_S = 3600
"""How long watchers can still see that a service is gone."""
HasDataset = Callable[[str, str], bool]
"""user, path → whether the path exists among what they may read."""


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
        state = self._observe(service, orders, now)
        plan = plan_service(service, state)
        nodes_to_nudge = self._write(service, plan, state.warning, now, looked_at)
        if nodes_to_nudge is None:
            self.services.kick(uid)
            return
        for node in nodes_to_nudge:
            self.nodes.nudge(node)

    def due(self, now: datetime) -> list[str]:
        """The services to reconcile: those that do not run often, the others occasionally. Each is returned once, and
        again after its period."""
        quiet, impatient = (to_text(now - timedelta(seconds=s)) for s in (HEARTBEAT_S, IMPATIENT_S))
        with self.database.read() as conn:
            uids_due = store.looked_at_before(conn, quiet, AT_ONCE)
            uids_due += store.not_running(conn, impatient, AT_ONCE)
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
            self.services.kick(uid)

    def node_permitted(self, _: str, keys: Collection[WorkKey]) -> None:
        """Listener of nodes: end at once what users run there who no longer may."""
        for uid in {key.uid for key in keys if key.kind == PLURAL}:
            self.services.kick(uid)

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
            nodes_to_nudge = self.nodes.withdraw(conn, PLURAL, service.uid)
            store.note_look(conn, [service.uid], to_text(now))
            is_gone = not self.nodes.orders_of(conn, PLURAL, service.uid)
            if is_gone:
                store.change_service(conn, fresh, gone_at=to_text(now))
        for node in nodes_to_nudge:
            self.nodes.nudge(node)
        if is_gone:
            self.services.announce()
            self.reports.forget(service.uid)

    def _observe(self, service: Service, orders: list[Order], now: datetime) -> ObservedState:
        specification = service.specification
        edge_model = self.models.find(service.owner, specification.edge.model, now=now)
        cloud_model = self.models.find(service.owner, specification.cloud.model, now=now)
        problem, warning = self._check(service, edge_model, cloud_model)
        key = key_of(service, Role.EDGE)
        edge_order = next((o for o in orders if o.key == key and o.node == specification.edge.node), None)
        edge_node, cloud_node = (
            self.nodes.access.find_for(service.owner, worker.node)
            for worker in (specification.edge, specification.cloud)
        )
        return ObservedState(
            now=now,
            edge_model=edge_model.card if edge_model else None,
            cloud_model=cloud_model.card if cloud_model else None,
            edge_node=edge_node,
            cloud_node=cloud_node,
            edge_order=edge_order,
            withheld=self.nodes.access.hidden_from(service.owner, specification.edge.node),
            problem=problem,
            warning=warning,
        )

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

    def _write(
        self, service: Service, plan: ServicePlan, warning: Condition | None, now: datetime, looked_at: str | None
    ) -> set[str] | None:
        """Store condition and orders, unless the service has changed meanwhile.

        Args:
            service: as it was when this started.
            plan: what follows for it.
            warning: to show beside the condition.
            now: the time.
            looked_at: when it was last reconciled before this started.

        Returns:
            The names of the nodes to nudge; None: it was reconciled by another meanwhile, and nothing was done.
        """
        nodes_to_nudge = set[str]()
        with self.database.write() as conn:
            fresh = store.lock(conn, service.uid)
            if fresh is None or fresh.deleted_at is not None or fresh.generation != service.generation:
                return nodes_to_nudge
            if store.looked_at(conn, service.uid) != looked_at:
                return None
            for role in Role:
                nodes_to_nudge |= self._order(conn, service, role, plan, now)
            status = _status(fresh, plan, warning, now)
            store.note_look(conn, [service.uid], to_text(now))
            if status != fresh.status:
                store.change_service(conn, fresh, status=status)
                _publish(conn, fresh, plan.condition, now)
        if status != fresh.status:
            self.services.announce()
        return nodes_to_nudge

    def _order(self, conn: Connection, service: Service, role: Role, plan: ServicePlan, now: datetime) -> set[str]:
        worker, key = service.specification.worker(role), key_of(service, role)
        content = plan.orders.get(role)
        orders = [order for order in self.nodes.orders_of(conn, PLURAL, service.uid) if order.key == key]
        if content is None:
            is_stale = any(order.generation != service.generation for order in orders)
            is_wanted = plan.condition.type is not ConditionType.FAILED  # an edge worker waits for the new cloud's
            is_over = role in plan.ended or (is_stale and not is_wanted)
            return set(self.nodes.withdraw(conn, PLURAL, service.uid, role.value)) if is_over else set()
        nodes_to_nudge = set(self.nodes.withdraw(conn, PLURAL, service.uid, role.value, but=worker.node))
        is_new = self.nodes.order(
            conn,
            worker.node,
            key,
            namespace=service.namespace,
            name=service.name,
            generation=service.generation,
            content=content.to_json(),
        )
        former = next((order.content for order in orders if order.node == worker.node and order.content), None)
        change = change_of_model(worker, former["model"], content.model) if is_new and former else ""
        if change:
            store.add_event(conn, service.uid, to_text(now), type="Changed", reason="ModelChanged", message=change)
        return nodes_to_nudge | {worker.node} if is_new else nodes_to_nudge


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


def _status(service: Service, plan: ServicePlan, warning: Condition | None, now: datetime) -> dict[str, Any]:
    """The new status; the former one when nothing has changed and no heartbeat is due."""
    at = to_text(now)
    before = service.status.get("conditions", ())
    status = {
        **service.status,
        "startTime": service.status.get("startTime") or at,
        "conditions": conditions_after(before, plan.condition, warning, at),
        "active": plan.active,
        "failed": plan.failed,
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
    kind, subject, at = f"service.{condition.type.value.lower()}", f"service:{service.uid}", to_text(now)
    name = f"{service.namespace}/{service.name}"
    facts = {"namespace": service.namespace, "service": service.name, "condition": condition.type.value}
    facts |= {"code": str(condition.reason), "reason": condition.message}
    path = f"/ui/services/{service.namespace}/{service.name}"
    publish(conn, Event(f"{subject}:{kind}:{at}", kind, service.owner, subject, name, at, path, facts))


def _timeless(status: Any) -> Any:
    conditions = [{k: v for k, v in c.items() if k != "lastHeartbeatTime"} for c in status.get("conditions", ())]
    return {**status, "conditions": conditions}
