"""Services as producers of results."""

from __future__ import annotations

from sqlalchemy import Connection

from app.joint_inference import store
from app.joint_inference.errors import ServiceNotFound
from app.joint_inference.model.resource import Service
from app.results.model.producer import Producer

KIND = "joint"


def producer_of_service(service: Service) -> Producer:
    name = f"{service.namespace}/{service.name}"
    edge = service.specification.edge
    return Producer(
        KIND,
        service.uid,
        service.owner,
        name,
        f"/api/v2/services/{name}",
        f"/ui/services/{name}",
        "services",
        f"/ui/services/{name}/picture",
        f"service:{service.uid}",
        {"service": name, "node": edge.place, "model": edge.model},
        is_over=service.deleted_at is not None,
        is_fleet=bool(edge.selector),
    )


def origin_of(service: Service, node: str) -> str:
    """Returns the node as the rows of a service have it: empty where it has only one."""
    return node if service.specification.edge.selector else ""


class ServiceProducers:
    def find(self, conn: Connection, uid: str) -> Producer | None:
        service = store.by_uid(conn, uid)
        return producer_of_service(service) if service is not None and service.gone_at is None else None

    def lock(self, conn: Connection, uid: str) -> Producer:
        """Locks the service until the transaction ends.

        Raises:
            ServiceNotFound: There is none, or it is being deleted.
        """
        service = store.lock(conn, uid)
        if service is None or service.deleted_at is not None:
            raise ServiceNotFound("The service has been deleted.")
        return producer_of_service(service)

    def uids(self, conn: Connection) -> list[str]:
        return store.uids(conn)
