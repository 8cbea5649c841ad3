"""What is to run for a service: from what it refers to, its nodes and their orders."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from app.joint_inference import store
from app.joint_inference.hard_examples.base import BadParameter, UnknownAlgorithm
from app.joint_inference.model.fleet import SUMMED_AT, fleet_plan, sum_infos
from app.joint_inference.model.reconciliation import ObservedState, ServicePlan, find_kept_model, key_of, plan_service
from app.joint_inference.model.resource import Role, Service
from app.joint_inference.model.rollout import Rollout
from app.joint_inference.model.state import with_trouble
from app.joint_inference.model.status import Condition, ConditionType, ProblemKind, Reason
from app.joint_inference.service.model_pairs import mismatch
from app.joint_inference.service.rollouts import condition_with, next_rollout
from app.joint_inference.service.services import Services
from app.joint_inference.worker_options import algorithm_of, cloud_options, edge_options
from app.model_registry.service import Model, Models
from app.nodes.model import Order
from app.nodes.service import Nodes
from app.results.store import sink_trouble

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


class ServicePlanner:
    """Plans services one by one.

    Args:
        models: registered networks.
        has_dataset: whether what a service names is there.
    """

    def __init__(self, services: Services, nodes: Nodes, models: Models, has_dataset: HasDataset) -> None:
        self.database = services.database
        self.services = services
        self.nodes = nodes
        self.models = models
        self.has_dataset = has_dataset

    def plan(self, service: Service, orders: Sequence[Order], now: datetime) -> Reconciliation:
        """Returns what is to run for a service that exists.

        Args:
            orders: of its nodes, as they stand.
        """
        specification = service.specification
        edge_model = self.models.find(service.owner, specification.edge.model, now=now)
        cloud_model = self.models.find(service.owner, specification.cloud.model, now=now)
        problem, warning = self._check(service, edge_model, cloud_model)
        warning = warning or self._check_drift(service)
        cloud_node = self.nodes.access.find_for(service.owner, specification.cloud.node)
        edge_orders, cloud_orders = (
            {order.node: order for order in orders if order.key == key_of(service, role)}
            for role in (Role.EDGE, Role.CLOUD)
        )
        placements = self.services.placements(service)
        card = edge_model.card if edge_model else None
        cloud_card = cloud_model.card if cloud_model else None
        withdrawn = frozenset(role for role, known in ((Role.EDGE, card), (Role.CLOUD, cloud_card)) if known is None)
        cloud_card = cloud_card or find_kept_model(service, cloud_orders.get(specification.cloud.node))
        rollout = next_rollout(service, card if problem is None else None, placements, now)
        plans = {}
        for placed, node in placements:
            name = placed.specification.edge.node
            if card is None:
                edge_card = find_kept_model(service, edge_orders.get(name))
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
        reported = sum_infos([placed.reported for placed, _ in placements]) if is_fleet else service.reported
        with self.database.read() as conn:
            trouble = sink_trouble(conn, service.uid)
        condition = with_trouble(condition_with(rollout, plan.condition), ProblemKind.SINK, trouble)
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

    def _check_drift(self, service: Service) -> Condition | None:
        with self.database.read() as conn:
            drift = store.drift_of(conn, service.uid)
        message = drift.message if drift is not None else ""
        return Condition(ConditionType.WARNING, Reason.DRIFT, message) if message else None


def _warning(service: Service) -> Condition | None:
    """Returns a warning about the algorithm. Users' own programs are not checked."""
    specification = service.specification
    if specification.cloud.is_builtin:
        cloud_options(specification.cloud.parameters)
    if not specification.edge.is_builtin:
        return None
    options = edge_options(specification.hard_example_parameters)
    why = algorithm_of(specification).never(candidate_threshold=options.predictor.candidate_threshold)
    return Condition(ConditionType.WARNING, Reason.NEVER_HARD, why) if why else None
