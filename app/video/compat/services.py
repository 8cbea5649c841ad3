"""/service/<name>: a user's call of a stage, forwarded to a node that serves it; and the list of nodes that do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.kit.clock import now
from app.kit.errors import NotFound, TooLarge, Unavailable
from app.kit.network.tls import tls_name
from app.kit.text.json_values import JsonObject
from app.kit.web.http import FILE_POLICY
from app.nodes.model import Node
from app.video.access import require_user, video_of
from app.video.model.job import StageHost
from app.video.model.plan import Role
from app.video.model.stage_call import MAX_BODY_BYTES
from app.video.service import Catalogue, Resources
from app.video.service.resources import host_of

if TYPE_CHECKING:
    import httpx

MAX_ANSWER_BYTES = 64 << 20
TIMEOUT_S, CONNECT_S = 60.0, 3.0
FORWARDED_HEADERS = ("content-type", "content-length", "accept")
NODE = "node"
RETURNED_HEADERS = ("content-type", "retry-after")
ORDER = (Role.CLOUD.value, Role.EDGE.value, Role.HOST.value)


class CallQuery(BaseModel):
    """Further parameters are the host's."""

    node: str = ""
    """It runs there, and nowhere else."""
    want: str = ""
    """Names of the outputs to be answered, as bbox,prob; empty: all."""


class StageNotServed(NotFound, code="STAGE_NOT_SERVED"):
    """The requirement's `unregistered services`."""


async def call(request: Request) -> Response:
    """Body and answer are passed on as they come; neither may be longer than the limit."""
    require_user(request)
    stage, node = str(request.path_params["stage"]), request.query_params.get(NODE, "")
    servers = [server for server in await _find_serving_stage(request, stage) if node in ("", server.host.node)]
    if not servers:
        raise StageNotServed(f"The node {node[:64]!r} does not serve {stage}.", hint=f"See /get_execute_url/{stage}.")
    if int(request.headers.get("content-length") or 0) > MAX_BODY_BYTES:
        raise _too_large()
    return await _forward_request(request, stage, servers)


async def get_service_list(request: Request) -> Response:
    return JSONResponse(sorted({stage for server in await _stage_servers(request) for stage in server.stages}))


async def get_execute_url(request: Request) -> Response:
    """For each node that serves the stage, where to call it: here, because nodes want the secret of their host of
    stages."""
    stage = str(request.path_params["stage"])
    servers = await _find_serving_stage(request, stage)
    keys, url = keys_of(servers), request.url.replace(path=f"/execute_task/{stage}", query="", fragment="")
    return JSONResponse(
        {
            keys[server.host.node]: {
                "node_role": server.host.role,
                "url": str(url.include_query_params(**{NODE: server.host.node})),
            }
            for server in servers
        }
    )


async def get_resource_info(request: Request) -> Response:
    """{ip: {stage: {n_process, cpu_ratio, mem_ratio}}}"""
    servers = await _stage_servers(request)
    keys = keys_of(servers)
    return JSONResponse(
        {keys[server.host.node]: {stage: server.service() for stage in server.stages} for server in servers}
    )


async def get_cluster_info(request: Request) -> Response:
    """{ip: {node_role, n_cpu, cpu_ratio, mem, mem_ratio}}; mem in MiB, ratios of the whole node, 0..1."""
    servers = await _stage_servers(request)
    keys = keys_of(servers)
    return JSONResponse({keys[server.host.node]: _describe_cluster(server) for server in servers})


def _describe_cluster(server: ServingNode) -> JsonObject:
    report = server.node.report
    return {
        "node": server.host.node,
        "node_role": server.host.role,
        "n_cpu": report.cores,
        "cpu_ratio": report.cpu,
        "mem": report.memory_bytes >> 20,
        "mem_ratio": report.memory,
        "accelerators": list(report.accelerators),
    }


async def _find_serving_stage(request: Request, stage: str) -> list[ServingNode]:
    """Returns the nodes that serve the stage; at least one."""
    servers = [server for server in await _stage_servers(request) if stage in server.stages]
    if not servers:
        raise StageNotServed("unregistered services", hint=f"No node serves a stage {stage!r}: see /get_service_list.")
    return servers


async def _stage_servers(request: Request) -> list[ServingNode]:
    video, user = video_of(request), require_user(request)
    return await run_in_threadpool(serving_nodes, video.resources, video.catalogue, user, now())


async def _forward_request(request: Request, stage: str, servers: Sequence[ServingNode]) -> Response:
    """To the first that can be reached. One that was reached and broke off may have run the stage: that is an error."""
    body, headers_sent = (
        _LimitedBody(request),
        {name: request.headers[name] for name in FORWARDED_HEADERS if name in request.headers},
    )
    import httpx

    timeout = httpx.Timeout(TIMEOUT_S, connect=CONNECT_S)
    params = httpx.QueryParams(str(request.query_params)).remove(NODE)
    is_encrypted = any(server.host.url.startswith("https:") for server in servers)
    certificates = video_of(request).resources.nodes.certificates
    verify = await run_in_threadpool(certificates.own_context, now=now()) if is_encrypted else True
    async with httpx.AsyncClient(timeout=timeout, trust_env=False, verify=verify) as http:
        for server in servers:
            headers, url = (
                {**headers_sent, "Authorization": f"Bearer {server.host.secret}"},
                f"{server.host.url}/service/{stage}",
            )
            name = {"sni_hostname": tls_name(server.host.node)}
            forwarded = http.build_request("POST", url, content=body, headers=headers, params=params, extensions=name)
            try:
                answer = await http.send(forwarded, stream=True)
                content = await _read_answer(answer)
            except (httpx.ConnectError, httpx.ConnectTimeout):
                continue
            except httpx.HTTPError as error:
                raise Unavailable(
                    f"The node {server.host.node!r} broke off: {error or type(error).__name__}."
                ) from error
            if content is None:
                raise Unavailable(f"The node {server.host.node!r} answers with more than {MAX_ANSWER_BYTES} bytes.")
            back = {name: answer.headers[name] for name in RETURNED_HEADERS if name in answer.headers}
            return Response(content, answer.status_code, {"Content-Security-Policy": FILE_POLICY, **back})
    raise Unavailable("No node that serves it can be reached.", hint="Try again in a moment.")


async def _read_answer(answer: httpx.Response) -> bytes | None:
    """The body; None if it is too long."""
    content = bytearray()
    try:
        async for chunk in answer.aiter_bytes():
            content += chunk
            if len(content) > MAX_ANSWER_BYTES:
                return None
    finally:
        await answer.aclose()
    return bytes(content)


class _LimitedBody:
    """The body of the request as it comes; reading beyond its limit raises TooLarge."""

    def __init__(self, request: Request) -> None:
        self.request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self.request.stream():
            size += len(chunk)
            if size > MAX_BODY_BYTES:
                raise _too_large()
            yield chunk


def _too_large() -> TooLarge:
    return TooLarge(f"A call of a stage may have {MAX_BODY_BYTES} bytes here.", hint="Send a smaller picture.")


@dataclass(frozen=True)
class ServingNode:
    """A node that serves stages, as a user sees it."""

    host: StageHost
    node: Node
    detail: Mapping[str, Any]
    """What its host of stages says of itself: {n_process, cpu_ratio, mem_ratio, queue, stages, way}."""
    allowed: Collection[str]
    """Names of the stages that the user may use."""

    @property
    def stages(self) -> list[str]:
        """Names of the stages of the catalog; those of jobs are for these alone."""
        served = self.detail.get("stages")
        return sorted(name for name in served if name in self.allowed) if isinstance(served, Mapping) else []

    @property
    def queue(self) -> float:
        return _parse_number(self.detail.get("queue"))

    def service(self) -> JsonObject:
        """As the requirement has it of each service: {n_process, cpu_ratio, mem_ratio}."""
        return {
            "n_process": int(_parse_number(self.detail.get("n_process"))),
            "cpu_ratio": _parse_number(self.detail.get("cpu_ratio")),
            "mem_ratio": _parse_number(self.detail.get("mem_ratio")),
        }


def serving_nodes(resources: Resources, catalogue: Catalogue, user: str, now: datetime) -> list[ServingNode]:
    """The nodes that serve stages now and that a user may use.

    Args:
        resources: what nodes have.
        catalogue: says which stages there are.
        user: the name of the user.
        now: the time at which a node must be online.

    Returns:
        Nodes of the cloud first, then by calls waiting.
    """
    stages = catalogue.names_seen_by(user)
    visible = {node.name: node for node in resources.nodes.access.seen_by(user)}
    servers = [
        ServingNode(host, node, worker.detail, stages)
        for host in resources.hosts_among(visible.values(), "", now)
        if (node := visible[host.node]) and (worker := host_of(node, now))
    ]
    return sorted(servers, key=lambda server: (_rank(server.host.role), server.queue, server.host.node))


def keys_of(servers: Sequence[ServingNode]) -> dict[str, str]:
    """node → its address, or its name where nodes share an address."""
    addresses = [server.host.ip for server in servers]
    return {
        server.host.node: server.host.ip if addresses.count(server.host.ip) == 1 else server.host.node
        for server in servers
    }


def _rank(role: str) -> int:
    return ORDER.index(role) if role in ORDER else len(ORDER)


def _parse_number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
