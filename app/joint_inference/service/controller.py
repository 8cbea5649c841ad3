"""The controllers: what a service should be, against what its nodes report; they are told the difference.

The joint-inference controller and the downstream one are the two halves of `reconcile`: condition and orders change in
one transaction, so that neither is without the other. The upstream controller is Reports.note. All may run twice.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection

from app.joint_inference import store
from app.joint_inference.hard_examples.base import BadParameter, UnknownAlgorithm
from app.joint_inference.model.reconciliation import ObservedState, ServicePlan, key_of, plan
from app.joint_inference.model.resource import PLURAL, Role, Service
from app.joint_inference.model.status import Condition, ConditionType, Reason, conditions_after, current_of
from app.joint_inference.service.model_pairs import mismatch
from app.joint_inference.service.reports import Reports
from app.joint_inference.service.services import Services
from app.joint_inference.worker_options import algorithm_of, cloud_options, edge_options
from app.kit.clock import from_text, to_text
from app.model_registry.service import Model, Models
from app.nodes.model import Node, Order, WorkKey
from app.nodes.service import Nodes

HEARTBEAT_S = 60
"""So often each service is looked at when nothing happens, and its conditions say when that was."""
IMPATIENT_S = 5
"""So often one that does not run is: a model or a node may have been added."""
AT_ONCE = 200
WATCHED_FOR_S = 3600
"""So long one that is gone can be seen to have gone by those who watch."""
HasDataset = Callable[[str, str], bool]
"""user, path → is there such a thing in what they may read?"""


class Controller:
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
        """Look at one service. Twice does no harm."""
        with self.database.read() as conn:
            service = store.by_uid(conn, uid)
            looked_at = store.looked_at(conn, uid)
            orders = self.nodes.orders_of(conn, PLURAL, uid)
        if service is None or service.gone_at is not None:
            return
        if service.deleted_at is not None:
            self._end(service, now)
            return
        world = self._world(service, orders, now)
        found = plan(service, world)
        told = self._write(service, found, world.warning, now, looked_at)
        if told is None:
            self.services.kick(uid)
            return
        for node in told:
            self.nodes.nudge(node)

    def due(self, now: datetime) -> list[str]:
        """Services to be looked at: those that do not run soon, the others once in a while. Each is said once: should
        nobody look at it, it is due again by and by."""
        quiet, impatient = (to_text(now - timedelta(seconds=s)) for s in (HEARTBEAT_S, IMPATIENT_S))
        with self.database.read() as conn:
            found = store.looked_at_before(conn, quiet, AT_ONCE)
            found += store.not_running(conn, impatient, AT_ONCE)
        uids = list(dict.fromkeys(found))
        if uids:
            with self.database.write() as conn:
                store.note_look(conn, uids, to_text(now))
        return uids

    def forget_gone(self, now: datetime) -> None:
        """And their pictures once more: the object store may have been away when they went."""
        with self.database.read() as conn:
            uids = store.gone_before(conn, to_text(now - timedelta(seconds=WATCHED_FOR_S)))
        for uid in uids:
            self.reports.forget(uid)
        with self.database.write() as conn:
            store.forget(conn, uids)

    def node_changed(self, _: Node, keys: Collection[WorkKey]) -> None:
        """Listens to nodes: what is theirs is looked at soon."""
        for uid in {key.uid for key in keys if key.kind == PLURAL}:
            self.services.kick(uid)

    def node_permitted(self, _: str, keys: Collection[WorkKey]) -> None:
        """Listens to nodes: what runs there of those who may no longer use it is ended at once."""
        for uid in {key.uid for key in keys if key.kind == PLURAL}:
            self.services.kick(uid)

    def node_replaced(self, _: str, keys: Collection[WorkKey]) -> None:
        """Listens to nodes: the worker of the machine that was evicted goes on, and is not to be answered."""
        for uid in {key.uid for key in keys if key.kind == PLURAL}:
            self.services.renew_secret(uid)

    def _end(self, service: Service, now: datetime) -> None:
        """Withdraw what its nodes were told; once they have all stored that, it is gone."""
        with self.database.write() as conn:
            fresh = store.lock(conn, service.uid)
            if fresh is None or fresh.gone_at is not None:
                return
            told = self.nodes.withdraw(conn, PLURAL, service.uid)
            store.note_look(conn, [service.uid], to_text(now))
            is_gone = not self.nodes.orders_of(conn, PLURAL, service.uid)
            if is_gone:
                store.change_service(conn, fresh, gone_at=to_text(now))
        for node in told:
            self.nodes.nudge(node)
        if is_gone:
            self.services.announce()
            self.reports.forget(service.uid)

    def _world(self, service: Service, orders: list[Order], now: datetime) -> ObservedState:
        wanted = service.specification
        edge_model = self.models.find(service.owner, wanted.edge.model, now=now)
        cloud_model = self.models.find(service.owner, wanted.cloud.model, now=now)
        problem, warning = self._judged(service, edge_model, cloud_model)
        key = key_of(service, Role.EDGE)
        edge_order = next((o for o in orders if o.key == key and o.node == wanted.edge.node), None)
        edge_node, cloud_node = (
            self.nodes.find_for(service.owner, worker.node) for worker in (wanted.edge, wanted.cloud)
        )
        return ObservedState(
            now=now,
            edge_model=edge_model.card if edge_model else None,
            cloud_model=cloud_model.card if cloud_model else None,
            edge_node=edge_node,
            cloud_node=cloud_node,
            edge_order=edge_order,
            withheld=self.nodes.hidden_from(service.owner, wanted.edge.node),
            problem=problem,
            warning=warning,
        )

    def _judged(
        self, service: Service, edge_model: Model | None, cloud_model: Model | None
    ) -> tuple[Condition | None, Condition | None]:
        """What is wrong with it, and what is to be warned of, whatever the nodes say."""
        wanted = service.specification
        for worker in (wanted.edge, wanted.cloud):
            dataset = worker.parameters.get("dataset", "")
            if dataset and not self.has_dataset(service.owner, dataset):
                message = f"There is no dataset {dataset!r} for the {worker.role} worker in the data home."
                return Condition(ConditionType.FAILED, Reason.DATASET_NOT_FOUND, message), None
        try:
            warning = _warning(service)
            return mismatch((wanted.edge, edge_model), (wanted.cloud, cloud_model)), warning
        except UnknownAlgorithm as error:
            said = f"{error.message} {error.hint}".strip()
            return Condition(ConditionType.FAILED, Reason.ALGORITHM_NOT_FOUND, said), None
        except BadParameter as error:
            said = f"{error.message} {error.hint}".strip()
            return Condition(ConditionType.FAILED, Reason.BAD_PARAMETERS, said), None

    def _write(
        self, service: Service, found: ServicePlan, warning: Condition | None, now: datetime, looked_at: str | None
    ) -> set[str] | None:
        """Names of the nodes that must hear of it. What was changed by another meanwhile is looked at again then.

        looked_at: of the look before, when this one began. None: another has looked meanwhile, and may have seen more;
        nothing was done.
        """
        told = set[str]()
        with self.database.write() as conn:
            fresh = store.lock(conn, service.uid)
            if fresh is None or fresh.deleted_at is not None or fresh.generation != service.generation:
                return told
            if store.looked_at(conn, service.uid) != looked_at:
                return None
            for role in Role:
                told |= self._order(conn, service, role, found)
            status = _status(fresh, found, warning, now)
            store.note_look(conn, [service.uid], to_text(now))
            if status != fresh.status:
                store.change_service(conn, fresh, status=status)
        if status != fresh.status:
            self.services.announce()
        return told

    def _order(self, conn: Connection, service: Service, role: Role, found: ServicePlan) -> set[str]:
        worker, key = service.specification.worker(role), key_of(service, role)
        content = found.orders.get(role)
        if content is None:
            known = [order for order in self.nodes.orders_of(conn, PLURAL, service.uid) if order.key == key]
            is_stale = any(order.generation != service.generation for order in known)
            is_wanted = found.condition.type is not ConditionType.FAILED  # an edge worker waits for the new cloud's
            is_over = role in found.ended or (is_stale and not is_wanted)
            return set(self.nodes.withdraw(conn, PLURAL, service.uid, role.value)) if is_over else set()
        told = set(self.nodes.withdraw(conn, PLURAL, service.uid, role.value, but=worker.node))
        is_new = self.nodes.order(
            conn,
            worker.node,
            key,
            namespace=service.namespace,
            name=service.name,
            generation=service.generation,
            content=content.to_json(),
        )
        return told | {worker.node} if is_new else told


def _warning(service: Service) -> Condition | None:
    """Raises UnknownAlgorithm, BadParameter. A user's own program has parameters and algorithms of its own."""
    wanted = service.specification
    if wanted.cloud.is_builtin:
        cloud_options(wanted.cloud.parameters)
    if not wanted.edge.is_builtin:
        return None
    options = edge_options(wanted.hard_example_parameters)
    why = algorithm_of(wanted).never(candidate_threshold=options.predictor.candidate_threshold)
    return Condition(ConditionType.WARNING, Reason.NEVER_HARD, why) if why else None


def _status(service: Service, found: ServicePlan, warning: Condition | None, now: datetime) -> dict[str, Any]:
    """The same as before when nothing has changed and it is not yet time to say that it was looked at."""
    at = to_text(now)
    before = service.status.get("conditions", ())
    status = {
        **service.status,
        "startTime": service.status.get("startTime") or at,
        "conditions": conditions_after(before, found.condition, warning, at),
        "active": found.active,
        "failed": found.failed,
    }
    last = current_of(service.status)
    if last is None or (now - from_text(last["lastHeartbeatTime"])).total_seconds() >= HEARTBEAT_S:
        return status
    is_same = _timeless(status) == _timeless(service.status)
    return dict(service.status) if is_same else status


def _timeless(status: Any) -> Any:
    conditions = [{k: v for k, v in c.items() if k != "lastHeartbeatTime"} for c in status.get("conditions", ())]
    return {**status, "conditions": conditions}
