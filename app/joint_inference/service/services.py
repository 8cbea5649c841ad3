"""The operations on services, for their users."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from app.inference.model_card import version_on
from app.joint_inference import store
from app.joint_inference.errors import ServiceExists, ServiceNotFound
from app.joint_inference.model.field_ownership import Manager
from app.joint_inference.model.fleet import place_on
from app.joint_inference.model.resource import PLURAL, Role, Service, specification_of
from app.joint_inference.model.rollout import RolloutAction
from app.joint_inference.model.status import complete_status
from app.joint_inference.service.broadcasts import check_broadcast
from app.joint_inference.service.changes import new_service, of_this_name, patched, replace_service, terminating
from app.joint_inference.service.model_pairs import refuse_mismatch
from app.joint_inference.service.rollouts import Placement, Rollouts, rollout_of
from app.joint_inference.service.worker_views import WorkerView, worker_view
from app.joint_inference.store import ServiceEvent, ServiceFilter
from app.joint_inference.validation import validate
from app.kit.clock import to_text
from app.kit.sql import Database, new_secret
from app.kit.sql.pages import cut_page, read_cursor
from app.model_registry.model import Model, ModelUse, Usage, follows
from app.nodes.service import Nodes

Wake = Callable[[str], None]
"""Have the service of this uid reconciled soon."""
FindModel = Callable[[Connection, str, str], Model | None]
"""user, name → the registered model that this name is for the user: their own, or one that is shared with them."""
EVENTS = 100
US = Manager()
ResourceEdit = Callable[[Service], tuple[Any, Sequence[Any] | None]]
"""Gives the new resource, and its managedFields where these do not follow from the change."""


@dataclass(eq=False)
class Services:
    """The services of all users. Every operation takes the user; another user's service does not exist for it.

    Args:
        wake: has a service reconciled soon.
        announce: notifies watchers of a change.
        find_model: gives the registered model that a user means by a name.
    """

    database: Database
    nodes: Nodes
    wake: Wake
    announce: Callable[[], None]
    find_model: FindModel = lambda *_: None

    def create(
        self, user: str, resource: Any, *, now: datetime, namespace: str | None = None, by: Manager = US
    ) -> Service:
        """Make a service; the controller starts its workers.

        Args:
            resource: as its user sent it, any JSON value.
            namespace: that of the path, with which the resource must agree; None: the resource alone says it.
            by: owns its fields.

        Raises:
            InvalidResource: It breaks the schema; ModelsUnfit: its models do not go together, or a decoder cannot
                read its model.
            ServiceExists: Its name is taken; Conflict: the path of its broadcast is.
        """
        fit = validate(resource, namespace=namespace)
        try:
            with self.database.write() as conn:
                self._refuse_mismatch(conn, user, fit["spec"])
                check_broadcast(conn, fit["spec"])
                created = store.add_service(conn, new_service(user, fit, to_text(now), by), to_text(now))
        except store.NameTaken:
            named = fit["metadata"]
            raise ServiceExists(
                f"There is a service {named['name']!r} in the namespace {named['namespace']!r} already.",
                hint="Choose another name, or change that one.",
            ) from None
        return self._notify(created)

    def replace(
        self, user: str, namespace: str, name: str, resource: Any, *, now: datetime, by: Manager = US
    ) -> Service:
        """Replace spec, labels and annotations.

        Args:
            resource: as its user sent it; a metadata.resourceVersion in it must be the present one.
            by: owns what it changes.

        Raises:
            InvalidResource: It breaks the schema, or its models do not go together.
            ServiceNotFound: It is not this user's, either.
            ServiceChanged: It was changed meanwhile; Conflict: the path of its broadcast is taken.
        """
        return self.change(user, namespace, name, lambda _: (resource, None), now=now, by=by)

    def merge(self, user: str, namespace: str, name: str, patch: Any, *, now: datetime, by: Manager = US) -> Service:
        """Apply a JSON merge patch (RFC 7386). Raises as `replace`.

        Args:
            patch: if it names no resourceVersion, it holds for any.
            by: owns what it changes.
        """

        return self.change(
            user, namespace, name, lambda service: (patched(service.to_resource(), patch), None), now=now, by=by
        )

    def change(
        self, user: str, namespace: str, name: str, edit: ResourceEdit, *, now: datetime, by: Manager = US
    ) -> Service:
        """Replace a service by what `edit` makes of it, while nobody else changes it. Raises as `replace` and `edit`
        do.

        Args:
            edit: returns the resource, and its managedFields; None for these: what changes is `by`'s.
        """
        with self.database.write() as conn:
            service = _get_locked(conn, user, namespace, name)
            resource, managed = edit(service)
            fit = of_this_name(validate(resource, namespace=namespace), name)
            if fit["spec"] != service.spec:
                self._refuse_mismatch(conn, user, fit["spec"])
                check_broadcast(conn, fit["spec"], service.uid)
            changed = replace_service(conn, service, fit, to_text(now), by, managed)
        return self._notify(changed)

    def apply(self, user: str, resource: Any, *, now: datetime) -> tuple[Service, bool]:
        """Creates, or replaces what has this namespace and name. True: it is new.

        Raises:
            InvalidResource: The resource has problems.
        """
        fit = validate(resource)
        namespace, name = fit["metadata"]["namespace"], fit["metadata"]["name"]
        with self.database.read() as conn:
            is_known = store.by_name(conn, user, namespace, name) is not None
        if is_known:
            return self.replace(user, namespace, name, fit, now=now), False
        return self.create(user, fit, now=now), True

    def check_models(self, user: str, spec: Mapping[str, Any]) -> None:
        """Checks the models of a valid spec as create and change do, for a dry run.

        Raises:
            ModelsUnfit: They cannot serve it.
        """
        with self.database.read() as conn:
            self._refuse_mismatch(conn, user, spec)

    def put_status(self, user: str, namespace: str, name: str, status: Mapping[str, Any], *, now: datetime) -> Service:
        """Write a status, for Kubernetes' tools; the controller overwrites it when it next reconciles.

        Args:
            status: what is missing in it is filled in.

        Raises:
            ServiceNotFound: It is not this user's, either.
        """
        with self.database.write() as conn:
            service = _get_locked(conn, user, namespace, name)
            changed = store.change_service(conn, service, status=complete_status(status, to_text(now)))
        return self._notify(changed or service)

    def get(self, user: str, namespace: str, name: str) -> Service:
        """Returns the service; one that is gone is not found either."""
        with self.database.read() as conn:
            return _get(conn, user, namespace, name)

    def delete(self, user: str, namespace: str, name: str, *, now: datetime) -> Service:
        """Delete a service: its workers are ended first, and until then it can still be seen. One that is being deleted
        stays so.

        Args:
            name: of the service.
            now: the time of its deletion.

        Raises:
            ServiceNotFound: It is not this user's, either.
        """
        with self.database.write() as conn:
            service = _get_locked(conn, user, namespace, name)
            if service.deleted_at is not None:
                return service
            deleted = store.change_service(conn, service, **terminating(service, to_text(now)))
        return self._notify(deleted or service)

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
        """A page of a user's services, newest first.

        Args:
            namespace: None: all.
            text: part of a name.
            state: type of the current condition; empty: any.
            cursor: from the page before; None: the first page.

        Returns:
            The services, and the cursor of the next page; None: this was the last.

        Raises:
            BadInput: The cursor is invalid.
        """
        with self.database.read() as conn:
            services = store.page(
                conn, user, ServiceFilter(namespace, text, state), before=read_cursor(cursor), limit=limit + 1
            )
        return cut_page(services, limit, lambda service: (service.created_at, service.uid))

    def all(self, user: str, *, namespace: str | None = None) -> tuple[list[Service], int]:
        """By namespace and name, with the version of this list, see `changes`."""
        with self.database.read() as conn:
            version = store.newest_version(conn)
            return store.every(conn, user, namespace), version

    def changes(self, user: str, after: int, *, namespace: str | None = None) -> list[Service]:
        """Those that changed after this version, oldest change first; one that is gone has gone_at."""
        with self.database.read() as conn:
            return store.list_changed(conn, user, after, namespace)

    def events(self, user: str, namespace: str, name: str) -> list[ServiceEvent]:
        """Newest first, at most 100."""
        with self.database.read() as conn:
            return store.events_of(conn, _get(conn, user, namespace, name).uid, EVENTS)

    def workers(self, service: Service, *, now: datetime) -> list[WorkerView]:
        """Those of the edge by their nodes' names, then the cloud's, as their nodes last reported them."""
        with self.database.read() as conn:
            orders = self.nodes.orders_of(conn, PLURAL, service.uid)
        contents = {(order.key.part, order.node): order.content for order in orders}
        cloud = self.nodes.access.find_for(service.owner, service.specification.cloud.node)
        edges = [worker_view(placed, Role.EDGE, node, contents, now) for placed, node in self.placements(service)]
        return [*edges, worker_view(service, Role.CLOUD, cloud, contents, now)]

    def placements(self, service: Service) -> list[Placement]:
        """The service as it is for each of its edge nodes: the one that it names, or those that it selects, by name."""
        edge = service.specification.edge
        if not edge.selector:
            return [(service, self.nodes.access.find_for(service.owner, edge.node))]
        nodes = self.nodes.access.selected_by(service.owner, edge.selector)
        with self.database.read() as conn:
            reports = store.reports_of(conn, service.uid)
        return [(place_on(service, node, reports.get(node.name, {})), node) for node in nodes]

    def act_on_rollout(self, user: str, namespace: str, name: str, action: RolloutAction, *, now: datetime) -> Service:
        """Pause, resume, take back, retry or promote the roll-out of its edge model.

        Args:
            name: of the service.
            action: which of these.

        Raises:
            ServiceNotFound: It is not this user's, either.
            NoSuchRollout: There is none, or none with which that can be done.
        """
        return Rollouts(self.database, self._notify).act(self.get(user, namespace, name), action, now=now)

    def count(self, user: str) -> int:
        """Of those that are not being deleted."""
        with self.database.read() as conn:
            return len(store.there_for(conn, user))

    def usages(self, use: ModelUse) -> list[Usage]:
        """Those, anybody's, whose edge or cloud worker needs this of a model."""
        with self.database.read() as conn:
            services = store.there_with_models_of(conn, use.owner)
        return [
            Usage("service", f"{service.namespace}/{service.name}", service.owner)
            for service in services
            if use.has(service.owner, *models_of(service))
        ]

    def model_changed(self, owner: str, model: str) -> None:
        """A name of this model means another version now, or others may use it or no longer: have the services that
        name it reconciled, anybody's."""
        with self.database.read() as conn:
            services = store.there_with_models_of(conn, owner)
        for service in services:
            if any(follows(name, owner, model, by=service.owner) for name in models_of(service)):
                self.wake(service.uid)

    def delete_all(self, user: str, *, now: datetime) -> None:
        with self.database.read() as conn:
            services = store.there_for(conn, user)
        for service in services:
            self.delete(user, service.namespace, service.name, now=now)

    def renew_secret(self, uid: str) -> None:
        """Order another secret for both workers; the former one is refused from then on."""
        with self.database.write() as conn:
            service = store.lock(conn, uid)
            if service is None or service.gone_at is not None:
                return
            renewed = store.change_service(conn, service, secret=new_secret()) or service
        self._notify(renewed)

    def _refuse_mismatch(self, conn: Connection, user: str, spec: Mapping[str, Any]) -> None:
        specification = specification_of(spec)
        edge, cloud = (
            (worker, self.find_model(conn, user, worker.model)) for worker in (specification.edge, specification.cloud)
        )
        refuse_mismatch(edge, cloud)

    def _notify(self, service: Service) -> Service:
        self.wake(service.uid)
        self.announce()
        return service


def models_of(service: Service) -> tuple[str, ...]:
    """The names of its models, and of those that its roll-out may go back to."""
    rollout = rollout_of(service)
    held = [version_on(card.name) for card in (rollout.former, rollout.target)] if rollout is not None else ()
    pinned = (f"{name}@{version}" for name, version in held)
    return service.specification.edge.model, service.specification.cloud.model, *pinned


def _get(conn: Connection, user: str, namespace: str, name: str) -> Service:
    service = store.by_name(conn, user, namespace, name)
    return _require_service(service, namespace, name)


def _get_locked(conn: Connection, user: str, namespace: str, name: str) -> Service:
    """As _get; locked until the transaction ends, since controllers change services at any moment."""
    return _require_service(store.lock(conn, _get(conn, user, namespace, name).uid), namespace, name)


def _require_service(service: Service | None, namespace: str, name: str) -> Service:
    if service is None or service.gone_at is not None:
        raise ServiceNotFound(f"There is no service {name!r} in the namespace {namespace!r}.")
    return service
