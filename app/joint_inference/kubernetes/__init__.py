"""The Kubernetes-shaped API: enough of it that kubectl works, without a cluster."""

from __future__ import annotations

from starlette.routing import BaseRoute, Route

from app.joint_inference.kubernetes import discovery, documents
from app.joint_inference.kubernetes.patches import patch_service
from app.joint_inference.kubernetes.read_endpoints import get_service, list_services
from app.joint_inference.kubernetes.write_endpoints import create_service, delete_service, put_status, replace_service
from app.joint_inference.model.resource import API_VERSION, GROUP, PLURAL

_GROUP = f"/apis/{API_VERSION}"
_ALL = f"{_GROUP}/{PLURAL}"
_MANY = f"{_GROUP}/namespaces/{{namespace}}/{PLURAL}"
_ONE = f"{_MANY}/{{name}}"

ROUTES: list[BaseRoute] = [
    Route("/version", discovery.version_of, methods=["GET"]),
    Route("/api", discovery.versions, methods=["GET"]),
    Route("/api/v1", discovery.core, methods=["GET"]),
    Route("/api/v1/namespaces", discovery.namespaces, methods=["GET"]),
    Route("/api/v1/namespaces/{namespace}", discovery.namespace, methods=["GET"]),
    Route("/api/v1/namespaces/{namespace}/events", discovery.events, methods=["GET"]),
    Route("/apis", discovery.groups, methods=["GET"]),
    Route(f"/apis/{GROUP}", discovery.group, methods=["GET"]),
    Route(_GROUP, discovery.resources, methods=["GET"]),
    Route("/openapi/v2", documents.v2, methods=["GET"]),
    Route("/openapi/v3", documents.v3, methods=["GET"]),
    Route(documents.V3, documents.v3_of_ours, methods=["GET"]),
    Route(_ALL, list_services, methods=["GET"]),
    Route(_ALL, create_service, methods=["POST"]),
    Route(_MANY, list_services, methods=["GET"]),
    Route(_MANY, create_service, methods=["POST"]),
    Route(_ONE, get_service, methods=["GET"]),
    Route(_ONE, replace_service, methods=["PUT"]),
    Route(_ONE, patch_service, methods=["PATCH"]),
    Route(_ONE, delete_service, methods=["DELETE"]),
    Route(f"{_ONE}/status", get_service, methods=["GET"]),
    Route(f"{_ONE}/status", put_status, methods=["PUT", "PATCH"]),
    Route("/apis/{rest:path}", discovery.nothing, methods=["GET"]),
]
