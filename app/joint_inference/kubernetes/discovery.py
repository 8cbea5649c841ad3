"""Discovery for Kubernetes' tools: groups, versions and resources. And namespaces, which are names here and need not be
created."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.joint_inference.access import joint_of
from app.joint_inference.errors import ServiceNotFound
from app.joint_inference.kubernetes.groups import GROUPS, NEPTUNE, ApiGroup, group_of
from app.joint_inference.kubernetes.representations import make_table, speaks_status
from app.joint_inference.kubernetes.requests import fields_of, wants_table
from app.joint_inference.metadata import DEFAULT_NAMESPACE
from app.joint_inference.model.resource import API_VERSION, KIND, PLURAL, SINGULAR, VERSION
from app.joint_inference.sedna import MODEL, MODELS
from app.joint_inference.service import ServiceEvent
from app.kit.errors import BadRequest, NotFound
from app.kit.text.json_values import JsonObject
from app.kit.web.auth import user_of

LIKE = ("1", "32")
"""The version of Kubernetes whose API is imitated."""
VERSIONS = {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


async def versions(_: Request) -> Response:
    return JSONResponse(VERSIONS)


async def groups(_: Request) -> Response:
    described = [_describe_group(group) for group in GROUPS]
    return JSONResponse({"kind": "APIGroupList", "apiVersion": "v1", "groups": described})


async def group(request: Request) -> Response:
    return JSONResponse({"kind": "APIGroup", "apiVersion": "v1", **_describe_group(group_of(request))})


async def core(_: Request) -> Response:
    namespaces = _describe_resource("namespaces", "Namespace", "get list", singular="namespace", short_names=("ns",))
    return _answer_resources("v1", {**namespaces, "namespaced": False})


async def resources(request: Request) -> Response:
    group = group_of(request)
    verbs = "create delete get list patch update watch"
    service = _describe_resource(PLURAL, KIND, verbs, singular=SINGULAR, short_names=group.short_names)
    status = _describe_resource(f"{PLURAL}/status", KIND, "get patch update")
    model = {**_describe_resource(MODELS, MODEL, "create get list patch update", singular="model"), "namespaced": False}
    return _answer_resources(group.api_version, service, status, *([] if group is NEPTUNE else [model]))


async def version_of(_: Request) -> Response:
    ours = {"gitVersion": f"v{'.'.join(LIKE)}.0+modelmill-{version('modelmill')}", "gitTreeState": "clean"}
    unknown = dict.fromkeys(("gitCommit", "goVersion", "compiler", "platform"), "")
    major, minor = LIKE
    return JSONResponse({"major": major, "minor": minor, **ours, "buildDate": "1970-01-01T00:00:00Z", **unknown})


@speaks_status
async def nothing(_: Request) -> Response:
    raise NotFound("the server could not find the requested resource")


@speaks_status
async def namespaces(request: Request) -> Response:
    """Lists `default` and the namespaces in which the caller has services."""
    items = [_describe_namespace(name) for name in await _list_names(request)]
    if wants_table(request.headers.get("accept", "")):
        return JSONResponse(_build_table(items))
    return JSONResponse({"kind": "NamespaceList", "apiVersion": "v1", "metadata": {}, "items": items})


@speaks_status
async def namespace(request: Request) -> Response:
    name = request.path_params["namespace"]
    if name not in await _list_names(request):
        raise NotFound(f'namespaces "{name}" not found')
    namespace = _describe_namespace(name)
    return JSONResponse(_build_table([namespace]) if wants_table(request.headers.get("accept", "")) else namespace)


@speaks_status
async def events(request: Request) -> Response:
    """Lists the events of one service, named by a field selector, for `kubectl describe`."""
    fields = fields_of(request.query_params.get("fieldSelector", ""))
    name = fields.get("involvedObject.name", "")
    if not name:
        raise BadRequest("Name the service: fieldSelector=involvedObject.name=…")
    where = request.path_params["namespace"]
    services, user = joint_of(request).services, user_of(request)

    def listed() -> list[JsonObject]:
        try:
            uid = services.get(user, where, name).uid
            events = services.events(user, where, name)
        except ServiceNotFound:
            return []
        if fields.get("involvedObject.kind", KIND) != KIND or fields.get("involvedObject.uid", uid) != uid:
            return []
        return [_describe_event(event, number, uid, where, name) for number, event in enumerate(reversed(events))]

    items = await run_in_threadpool(listed)
    return JSONResponse({"kind": "EventList", "apiVersion": "v1", "metadata": {"resourceVersion": "0"}, "items": items})


async def _list_names(request: Request) -> list[str]:
    services, user = joint_of(request).services, user_of(request)
    every, _ = await run_in_threadpool(services.all, user)
    return sorted({DEFAULT_NAMESPACE, *(service.namespace for service in every)})


def _answer_resources(group_version: str, *resources: JsonObject) -> Response:
    head = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version}
    return JSONResponse({**head, "resources": resources})


def _describe_resource(
    name: str, kind: str, verbs: str, *, singular: str = "", short_names: Sequence[str] = ()
) -> JsonObject:
    names = {"name": name, "singularName": singular, "shortNames": short_names, "kind": kind}
    return {**names, "namespaced": True, "verbs": verbs.split()}


def _describe_group(group: ApiGroup) -> JsonObject:
    version = {"groupVersion": group.api_version, "version": VERSION}
    return {"name": group.name, "versions": [version], "preferredVersion": version}


def _describe_namespace(name: str) -> JsonObject:
    metadata = {"name": name, "uid": name, "labels": {"kubernetes.io/metadata.name": name}, "creationTimestamp": None}
    return {"kind": "Namespace", "apiVersion": "v1", "metadata": metadata, "status": {"phase": "Active"}}


def _build_table(namespaces: list[JsonObject]) -> JsonObject:
    column = {"type": "string", "format": "", "description": "", "priority": 0}
    rows = [{"cells": [item["metadata"]["name"], "Active"], "object": item} for item in namespaces]
    return make_table({}, [{"name": name, **column} for name in ("Name", "Status")], rows)


def _describe_event(event: ServiceEvent, number: int, uid: str, namespace: str, name: str) -> JsonObject:
    at = f"{event.at[:19]}Z"
    about = {"kind": KIND, "namespace": namespace, "name": name, "uid": uid, "apiVersion": API_VERSION}
    return {
        "kind": "Event",
        "apiVersion": "v1",
        "involvedObject": about,
        "reason": event.reason,
        "message": event.message,
        "metadata": {"name": f"{name}.{number}", "namespace": namespace, "creationTimestamp": at},
        "type": "Normal" if event.type in ("Pending", "Running", "Changed") else "Warning",
        "count": 1,
        "source": {"component": "joint-inference"},
        "firstTimestamp": at,
        "lastTimestamp": at,
        "reportingComponent": "",
        "reportingInstance": "",
        "eventTime": None,
    }
