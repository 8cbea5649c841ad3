"""The verbs of services, for their users."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from app.joint_inference import store
from app.joint_inference.errors import ServiceExists, ServiceNotFound
from app.joint_inference.model.field_ownership import Manager
from app.joint_inference.model.reconciliation import key_of
from app.joint_inference.model.resource import PLURAL, Role, Service, specification_of
from app.joint_inference.model.status import completed
from app.joint_inference.service.changes import (
    merged,
    names_version,
    new_service,
    of_this_name,
    replaced,
    terminating,
)
from app.joint_inference.service.model_pairs import refuse_mismatch
from app.joint_inference.store import ServiceEvent, ServiceFilter
from app.joint_inference.validation import validated
from app.kit.clock import to_text
from app.kit.errors import BadInput
from app.kit.sql import Database, new_secret
from app.model_registry.model import Model
from app.nodes.model import WorkerReport
from app.nodes.service import Nodes

Kick = Callable[[str], None]
"""Have the service of this uid looked at soon."""
FindModel = Callable[[Connection, str, str], Model | None]
"""user, name → the model that is registered under this name."""
EVENTS = 100
US = Manager()
ResourceEdit = Callable[[Service], tuple[Any, Sequence[Any] | None]]
"""The resource, and its managedFields where these do not follow from what has changed."""


@dataclass(frozen=True)
class WorkerView:
    """A worker and what its node says of it. report: None when that is nothing (yet); is_online: is the node heard?
    sha256: of the model that the node was told to run; empty: it was told nothing yet."""

    role: Role
    name: str
    node: str
    model: str
    is_online: bool
    report: WorkerReport | None
    sha256: str


class Services:
    """Every verb takes the user; another user's service is as if there were none.

    announce: tell whoever watches that something changed.
    """

    def __init__(
        self,
        database: Database,
        nodes: Nodes,
        kick: Kick,
        announce: Callable[[], None],
        find_model: FindModel = lambda *_: None,
    ) -> None:
        self.database = database
        self.nodes = nodes
        self.kick = kick
        self.announce = announce
        self.find_model = find_model

    def create(
        self, user: str, resource: Any, *, now: datetime, namespace: str | None = None, by: Manager = US
    ) -> Service:
        """resource: as its user sent it, any JSON value. namespace: that of the path, where it must agree.

        Raises InvalidResource (ModelsDiffer among it), ServiceExists.
        """
        fit = validated(resource, namespace=namespace)
        try:
            with self.database.write() as conn:
                self._refuse_mismatch(conn, user, fit["spec"])
                made = store.add_service(conn, new_service(user, fit, to_text(now), by), to_text(now))
        except store.NameTaken:
            named = fit["metadata"]
            raise ServiceExists(
                f"There is a service {named['name']!r} in the namespace {named['namespace']!r} already.",
                hint="Choose another name, or change that one.",
            ) from None
        return self._told(made)

    def replace(
        self, user: str, namespace: str, name: str, resource: Any, *, now: datetime, by: Manager = US
    ) -> Service:
        """Its spec, labels and annotations. A metadata.resourceVersion must be the present one.

        Raises InvalidResource, ServiceNotFound, ServiceChanged.
        """
        return self.change(user, namespace, name, lambda _: (resource, None), now=now, by=by)

    def merge(self, user: str, namespace: str, name: str, patch: Any, *, now: datetime, by: Manager = US) -> Service:
        """JSON merge patch (RFC 7386) on the resource. Raises as replace."""

        def wanted(service: Service) -> tuple[Any, None]:
            found = merged(service.to_resource(), patch)
            is_of_any = not names_version(patch)
            return merged(found, {"metadata": {"resourceVersion": None}}) if is_of_any else found, None

        return self.change(user, namespace, name, wanted, now=now, by=by)

    def change(
        self, user: str, namespace: str, name: str, wanted: ResourceEdit, *, now: datetime, by: Manager = US
    ) -> Service:
        """wanted: what is to be of the one that there is, while nobody else changes it. Raises as replace, and what
        wanted raises."""
        with self.database.write() as conn:
            service = _locked(conn, user, namespace, name)
            resource, managed = wanted(service)
            fit = of_this_name(validated(resource, namespace=namespace), name)
            if fit["spec"] != service.spec:
                self._refuse_mismatch(conn, user, fit["spec"])
            changed = replaced(conn, service, fit, to_text(now), by, managed)
        return self._told(changed)

    def apply(self, user: str, resource: Any, *, now: datetime) -> tuple[Service, bool]:
        """Create, or replace what has this namespace and name. True: it is new. Raises InvalidResource."""
        fit = validated(resource)
        namespace, name = fit["metadata"]["namespace"], fit["metadata"]["name"]
        with self.database.read() as conn:
            is_known = store.by_name(conn, user, namespace, name) is not None
        if is_known:
            return self.replace(user, namespace, name, fit, now=now), False
        return self.create(user, fit, now=now), True

    def check_models(self, user: str, spec: Mapping[str, Any]) -> None:
        """As create and change check the models of a valid spec, for a dry run. Raises ModelsDiffer."""
        with self.database.read() as conn:
            self._refuse_mismatch(conn, user, spec)

    def put_status(self, user: str, namespace: str, name: str, status: Mapping[str, Any], *, now: datetime) -> Service:
        """For Kubernetes' tools; what the controller finds wins at its next look."""
        with self.database.write() as conn:
            service = _locked(conn, user, namespace, name)
            changed = store.change_service(conn, service, status=completed(status, to_text(now)))
        return self._told(changed or service)

    def get(self, user: str, namespace: str, name: str) -> Service:
        """Raises ServiceNotFound; also when it is gone."""
        with self.database.read() as conn:
            return _get(conn, user, namespace, name)

    def delete(self, user: str, namespace: str, name: str, *, now: datetime) -> Service:
        """Its workers are ended first; then it is gone. Raises ServiceNotFound."""
        with self.database.write() as conn:
            service = _locked(conn, user, namespace, name)
            if service.deleted_at is not None:
                return service
            deleted = store.change_service(conn, service, **terminating(service, to_text(now)))
        return self._told(deleted or service)

    def page(
        self,
        user: str,
        *,
        namespace: str | None = None,
        text: str = "",
        state: str = "",
        cursor: str | None = None,
        limit: int = 50,
    ) -> tuple[list[Service], str | None]:
        """Newest first. text: part of a name; state: type of the current condition. Raises BadInput for no cursor."""
        with self.database.read() as conn:
            found = store.page(
                conn, user, ServiceFilter(namespace, text, state), before=_cursor(cursor), limit=limit + 1
            )
        shown = found[:limit]
        return shown, f"{shown[-1].created_at}~{shown[-1].uid}" if len(found) > limit else None

    def all(self, user: str, *, namespace: str | None = None) -> tuple[list[Service], int]:
        """By namespace and name, and the version this list is of: what changes comes after it."""
        with self.database.read() as conn:
            version = store.newest_version(conn)
            return store.every(conn, user, namespace), version

    def changes(self, user: str, after: int, *, namespace: str | None = None) -> list[Service]:
        """Those that changed after this version, oldest change first; one that is gone has gone_at."""
        with self.database.read() as conn:
            return store.changed(conn, user, after, namespace)

    def events(self, user: str, namespace: str, name: str) -> list[ServiceEvent]:
        """Newest first, at most 100."""
        with self.database.read() as conn:
            return store.events_of(conn, _get(conn, user, namespace, name).uid, EVENTS)

    def workers(self, service: Service, *, now: datetime) -> list[WorkerView]:
        """Edge, then cloud, as their nodes last reported them."""
        with self.database.read() as conn:
            orders = self.nodes.orders_of(conn, PLURAL, service.uid)
        told = {(order.key.part, order.node): order.content for order in orders}
        return [_view(service, role, self.nodes, told, now) for role in Role]

    def count(self, user: str) -> int:
        """Of those that are not being deleted."""
        with self.database.read() as conn:
            return len(store.there_for(conn, user))

    def using(self, user: str, model: str) -> list[str]:
        """namespace/name of those whose edge or cloud worker has this model."""
        with self.database.read() as conn:
            found = store.there_for(conn, user)
        return [
            f"{service.namespace}/{service.name}"
            for service in found
            if model in (service.specification.edge.model, service.specification.cloud.model)
        ]

    def delete_all(self, user: str, *, now: datetime) -> None:
        with self.database.read() as conn:
            found = store.there_for(conn, user)
        for service in found:
            self.delete(user, service.namespace, service.name, now=now)

    def renew_secret(self, uid: str) -> None:
        """Both workers are told of another; who knows only the one before is refused."""
        with self.database.write() as conn:
            service = store.lock(conn, uid)
            if service is None or service.gone_at is not None:
                return
            renewed = store.change_service(conn, service, secret=new_secret()) or service
        self._told(renewed)

    def _refuse_mismatch(self, conn: Connection, user: str, spec: Mapping[str, Any]) -> None:
        specification = specification_of(spec)
        edge, cloud = (
            (worker, self.find_model(conn, user, worker.model)) for worker in (specification.edge, specification.cloud)
        )
        refuse_mismatch(edge, cloud)

    def _told(self, service: Service) -> Service:
        self.kick(service.uid)
        self.announce()
        return service


def _view(
    service: Service, role: Role, nodes: Nodes, told: Mapping[tuple[str, str], Mapping[str, Any]], now: datetime
) -> WorkerView:
    worker = service.specification.worker(role)
    node = nodes.find_for(service.owner, worker.node)
    is_online = node is not None and node.is_online(now)
    report = node.worker(key_of(service, role)) if node else None
    card = told.get((role.value, worker.node), {}).get("model") or {}
    return WorkerView(role, worker.name, worker.node, worker.model, is_online, report, str(card.get("sha256", "")))


def _get(conn: Connection, user: str, namespace: str, name: str) -> Service:
    found = store.by_name(conn, user, namespace, name)
    return _require_service(found, namespace, name)


def _locked(conn: Connection, user: str, namespace: str, name: str) -> Service:
    """As _get; until the transaction ends nobody else changes it: controllers do so at any moment."""
    return _require_service(store.lock(conn, _get(conn, user, namespace, name).uid), namespace, name)


def _require_service(found: Service | None, namespace: str, name: str) -> Service:
    if found is None or found.gone_at is not None:
        raise ServiceNotFound(f"There is no service {name!r} in the namespace {namespace!r}.")
    return found


def _cursor(text: str | None) -> tuple[str, str] | None:
    if text is None:
        return None
    at, mark, uid = text.partition("~")
    if not mark:
        raise BadInput(f"{text!r} is no cursor.", hint="Take next_cursor of the page before.")
    return at, uid
