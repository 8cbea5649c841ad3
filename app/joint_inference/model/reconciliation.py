"""Reconciles a service with the reports of its nodes: the orders for its two workers, and its condition. Pure.

The cloud worker comes first; the edge worker is ordered once the big model serves, because it needs the address. From
then on it stays, also while the cloud is unreachable: it continues alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from app.inference.model_card import MODEL_CARD, ModelCard
from app.joint_inference.model.content import BigModel, OrderContent, resource_for_node
from app.joint_inference.model.resource import PLURAL, Role, Service
from app.joint_inference.model.state import ObservedWorker, condition_of, with_trouble
from app.joint_inference.model.status import Condition, ConditionType, ProblemKind, Reason
from app.nodes.model import Node, Operation, Order, WorkerState, WorkKey


@dataclass(frozen=True)
class ObservedState:
    """What a service refers to, as it is now."""

    now: datetime
    edge_model: ModelCard | None
    """None: there is no such model."""
    cloud_model: ModelCard | None
    """None: there is no such model."""
    edge_node: Node | None
    """None: there is no such node that the service's user may use."""
    cloud_node: Node | None
    """None: there is no such node that the service's user may use."""
    edge_order: Order | None = None
    """The last order of the edge node."""
    withheld: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """See OrderContent."""
    former: ModelCard | None = None
    """What the edge worker compares its model with."""
    problem: Condition | None = None
    """What is wrong with the service, whatever its nodes report."""
    warning: Condition | None = None
    withdrawn: frozenset[Role] = frozenset()
    """Workers that keep the model of their last order, because its name no longer refers to one."""


Place = tuple[Role, str]
"""A worker, and the name of the node that it runs on."""


@dataclass(frozen=True)
class ServicePlan:
    """What follows for a service: its condition, and the orders for its workers."""

    condition: Condition
    orders: dict[Place, OrderContent]
    """A worker without an order is left as it is, unless it is of an older generation."""
    active: int
    """The requirement's count of active workers."""
    failed: int
    """The requirement's count of failed workers."""
    nodes: Mapping[Role, frozenset[str]] = field(default_factory=lambda: dict.fromkeys(Role, frozenset()))
    """Those on which the workers may be: they exist, and are for the service's user."""
    workers: Mapping[Role, ObservedWorker] = field(default_factory=dict)
    """As they were observed; of a service of one edge node."""


def key_of(service: Service, role: Role) -> WorkKey:
    return WorkKey(PLURAL, service.uid, role.value)


def plan_service(service: Service, state: ObservedState) -> ServicePlan:
    workers = {role: _observe(service, role, state) for role in Role}
    active = sum(worker.is_active for worker in workers.values())
    failed = sum(worker.counts_as_failed for worker in workers.values())
    nodes = {
        role: frozenset([node.name] if node is not None else [])
        for role, node in ((Role.EDGE, state.edge_node), (Role.CLOUD, state.cloud_node))
    }
    problem = state.problem or _find_missing(service, state)
    condition = problem or _withdraw(service, state, condition_of(service, workers))
    orders = {} if problem is not None else _make_orders(service, state, workers[Role.CLOUD])
    placed = {(role, service.specification.worker(role).node): content for role, content in orders.items()}
    return ServicePlan(condition, placed, active, failed, nodes, workers)


def _observe(service: Service, role: Role, state: ObservedState) -> ObservedWorker:
    worker = service.specification.worker(role)
    node = state.edge_node if role is Role.EDGE else state.cloud_node
    report, former = node.worker(key_of(service, role)) if node else None, None
    order_problem = node.report.order_problem if node is not None else ""
    if report is not None and report.generation != service.generation:
        is_ordered = state.edge_order is not None and state.edge_order.generation == service.generation
        is_kept = role is Role.EDGE and is_ordered and order_problem and report.shown.state is WorkerState.RUNNING
        report, former = None, report if is_kept else None  # it is about what was wanted before
    model = state.edge_model if role is Role.EDGE else state.cloud_model
    return ObservedWorker(
        role=role,
        name=worker.name,
        node=worker.node,
        is_online=node is not None and node.is_online(state.now),
        report=report,
        model=model,
        former=former,
        order_problem=order_problem,
        report_problem=node.report.report_problem if node is not None else "",
        delivery_problem=node.report.delivery_problem if node is not None else "",
    )


def _find_missing(service: Service, state: ObservedState) -> Condition | None:
    """Everything that is missing in one condition, a line each."""
    cloud, edge = service.specification.cloud, service.specification.edge
    no_model = (
        "There is no model {0.model!r} for the {0.role} worker. Add one of this name under Models, "
        "or name a finished conversion."
    )
    no_node = "There is no node {0.node!r} for the {0.role} worker. Add it under Nodes, or name another."
    missing = [
        (reason, sentence.format(worker))
        for reason, sentence, worker, what in (
            (Reason.MODEL_NOT_FOUND, no_model, cloud, state.cloud_model),
            (Reason.MODEL_NOT_FOUND, no_model, edge, state.edge_model),
            (Reason.NODE_NOT_FOUND, no_node, cloud, state.cloud_node),
            (Reason.NODE_NOT_FOUND, no_node, edge, state.edge_node),
        )
        if what is None
    ]
    return Condition(ConditionType.FAILED, missing[0][0], "\n".join(text for _, text in missing)) if missing else None


def find_kept_model(service: Service, order: Order | None) -> ModelCard | None:
    """Returns the model that a worker goes on with when its name no longer refers to one: that of its last order, if
    the service has not been changed since."""
    if order is None or order.operation is Operation.DELETE or order.generation != service.generation:
        return None
    return MODEL_CARD.read(order.content["model"])


def _withdraw(service: Service, state: ObservedState, condition: Condition) -> Condition:
    """The condition says which models are no longer there."""
    lost = [service.specification.worker(role) for role in Role if role in state.withdrawn]
    lines = (
        f"The model {worker.model!r} of the {worker.role} worker is no longer there for you: it is not shared any "
        "more, or was removed. The worker goes on with the version that it has."
        for worker in lost
    )
    return with_trouble(condition, ProblemKind.MODEL, "\n".join(lines))


def _make_orders(service: Service, state: ObservedState, cloud: ObservedWorker) -> dict[Role, OrderContent]:
    assert state.cloud_model is not None
    assert state.edge_model is not None
    resource = resource_for_node(service)
    orders = {Role.CLOUD: OrderContent(Role.CLOUD, resource, state.cloud_model, secret=service.secret)}
    url = _find_big_model(service, state, cloud)
    if url:
        big = BigModel(url, service.secret)
        orders[Role.EDGE] = OrderContent(
            Role.EDGE, resource, state.edge_model, big_model=big, withheld=state.withheld, former=state.former
        )
    return orders


def _find_big_model(service: Service, state: ObservedState, cloud: ObservedWorker) -> str:
    """Where the cloud worker serves; while it is unreachable, where it did when this generation's edge worker was
    told."""
    if cloud.is_serving and cloud.report is not None and cloud.report.address:
        return cloud.report.url
    if state.edge_order is None or state.edge_order.generation != service.generation:
        return ""
    big = state.edge_order.content.get("bigModel") or {}
    return str(big.get("url", ""))
