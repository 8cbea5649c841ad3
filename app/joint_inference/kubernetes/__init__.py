"""The Kubernetes-shaped API: enough of it that kubectl works, without a cluster."""

from __future__ import annotations

from starlette.routing import BaseRoute, Route

from app.joint_inference.kubernetes import discovery, documents
from app.joint_inference.kubernetes.groups import GROUPS, ApiGroup
from app.joint_inference.kubernetes.models import change_model, create_model, get_model, list_models
from app.joint_inference.kubernetes.patches import patch_service
from app.joint_inference.kubernetes.read_endpoints import get_service, list_services
from app.joint_inference.kubernetes.write_endpoints import create_service, delete_service, put_status, replace_service
from app.joint_inference.model.resource import PLURAL
from app.joint_inference.sedna import MODELS, SEDNA


def _routes_of(group: ApiGroup) -> list[BaseRoute]:
    every = f"{group.path}/{PLURAL}"
    many = f"{group.path}/namespaces/{{namespace}}/{PLURAL}"
    one = f"{many}/{{name}}"
    return [
        Route(f"/apis/{group.name}", discovery.group, methods=["GET"]),
        Route(group.path, discovery.resources, methods=["GET"]),
        Route(f"/openapi/v3{group.path}", documents.v3_of_group, methods=["GET"]),
        Route(every, list_services, methods=["GET"]),
        Route(every, create_service, methods=["POST"]),
        Route(many, list_services, methods=["GET"]),
        Route(many, create_service, methods=["POST"]),
        Route(one, get_service, methods=["GET"]),
        Route(one, replace_service, methods=["PUT"]),
        Route(one, patch_service, methods=["PATCH"]),
        Route(one, delete_service, methods=["DELETE"]),
        Route(f"{one}/status", get_service, methods=["GET"]),
        Route(f"{one}/status", put_status, methods=["PUT", "PATCH"]),
    ]


ROUTES: list[BaseRoute] = [
    Route("/version", discovery.version_of, methods=["GET"]),
    Route("/api", discovery.versions, methods=["GET"]),
    Route("/api/v1", discovery.core, methods=["GET"]),
    Route("/api/v1/namespaces", discovery.namespaces, methods=["GET"]),
    Route("/api/v1/namespaces/{namespace}", discovery.namespace, methods=["GET"]),
    Route("/api/v1/namespaces/{namespace}/events", discovery.events, methods=["GET"]),
    Route("/apis", discovery.groups, methods=["GET"]),
    Route("/openapi/v2", documents.v2, methods=["GET"]),
    Route("/openapi/v3", documents.v3, methods=["GET"]),
    *(route for group in GROUPS for route in _routes_of(group)),
    Route(f"/apis/{SEDNA}/{MODELS}", list_models, methods=["GET"]),
    Route(f"/apis/{SEDNA}/{MODELS}", create_model, methods=["POST"]),
    Route(f"/apis/{SEDNA}/{MODELS}/{{name}}", get_model, methods=["GET"]),
    Route(f"/apis/{SEDNA}/{MODELS}/{{name}}", change_model, methods=["PUT", "PATCH"]),
    Route("/apis/{rest:path}", discovery.nothing, methods=["GET"]),
]
