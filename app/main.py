"""The ASGI application: settings → Starlette(routes, middleware, lifespan). An application is a value."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from importlib.metadata import version

from anyio import CapacityLimiter
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount

from app.accounts.api import OPERATIONS as ACCOUNTS_OPERATIONS
from app.accounts.pages import ROUTES as ACCOUNTS_PAGES
from app.bootstrap.container import Container, assemble
from app.bootstrap.health import PROBES_TOGETHER, healthz, readyz
from app.conversion.api import OPERATIONS
from app.conversion.metrics.collector import ConversionCollector
from app.conversion.pages import ROUTES as CONVERSION_PAGES
from app.conversion.results_api import OPERATIONS as RESULTS_OPERATIONS
from app.conversion.schemas import Health
from app.homes.api import OPERATIONS as HOMES_OPERATIONS
from app.homes.pages import ROUTES as HOMES_PAGES
from app.joint_inference.api import OPERATIONS as JOINT_OPERATIONS
from app.joint_inference.kubernetes import ROUTES as KUBERNETES_API
from app.joint_inference.metrics import JointCollector
from app.joint_inference.pages import ROUTES as JOINT_PAGES
from app.kit.cli.command import complain, exit_code
from app.kit.errors import ModelmillError
from app.kit.objects.routes import OPERATIONS as OBJECTS_OPERATIONS
from app.kit.observability import logs, tracing
from app.kit.observability.metrics_page import SCRAPES_TOGETHER, metrics
from app.kit.observability.request_log import RequestLog
from app.kit.process import open_files
from app.kit.redis.change_hub import ChangeHub
from app.kit.web.auth import Authentication
from app.kit.web.body_limits import BodyLimits, UploadLimits
from app.kit.web.common_pages import ROUTES as KIT_PAGES
from app.kit.web.http import EXCEPTION_HANDLERS
from app.kit.web.idempotency import AnswerCache
from app.kit.web.openapi import Operation, document
from app.kit.web.security import KnownHostsOnly, SameOriginOnly, SecurityHeaders
from app.kit.web.static import HashedFiles
from app.model_registry.api import OPERATIONS as MODELS_OPERATIONS
from app.model_registry.pages import ROUTES as MODELS_PAGES
from app.nodes.api import OPERATIONS as NODES_OPERATIONS
from app.nodes.api import ROUTES as NODES_SOCKETS
from app.nodes.pages import ROUTES as NODES_PAGES
from app.settings import Settings, load_settings
from app.training.api import OPERATIONS as TRAINING_OPERATIONS
from app.training.metrics.collector import TrainingCollector
from app.training.pages import ROUTES as TRAINING_PAGES
from app.training.service import ClusterPicture
from app.video.api import OPERATIONS as VIDEO_OPERATIONS
from app.video.compat.api import OPERATIONS as VIDEO_REQUIREMENT
from app.video.compat.api import PATHS as VIDEO_REQUIREMENT_PATHS
from app.video.errors import as_refusal
from app.video.metrics import VideoCollector
from app.video.pages import ROUTES as VIDEO_PAGES


def openapi(request: Request) -> Response:
    return JSONResponse(request.app.state.openapi)


OWN_OPERATIONS = [
    Operation("GET", "/healthz", healthz, "Is the web process alive?", {200: Health}, callers=()),
    Operation(
        "GET",
        "/readyz",
        readyz,
        "Can it reach Redis, object store and database?",
        {200: Health},
        errors=(503,),
        callers=(),
    ),
    Operation("GET", "/openapi.json", openapi, "This document.", {200: ("application/json",)}, callers=()),
    Operation(
        "GET",
        "/metrics",
        metrics,
        "Figures for Prometheus.",
        {200: ("text/plain",)},
        errors=(401,),
        callers=(),
    ),
]


MIDDLEWARE = [
    Middleware(RequestLog, path_fields=("job_id", "task_id")),
    Middleware(SecurityHeaders),
    Middleware(KnownHostsOnly),
    Middleware(SameOriginOnly),
    Middleware(Authentication),
    Middleware(BodyLimits),
]


def create_app(settings: Settings | None = None) -> Starlette:
    """settings: without them the application is the one of this process: from the environment, and its logs with it."""
    is_this_process = settings is None
    if settings is None:
        settings = load_settings()
        logs.configure(settings.log_format, settings.log_level)
        tracing.configure("web")
    container = assemble(settings)
    if is_this_process:
        _prepare_or_exit(container)
    operations = [
        *ACCOUNTS_OPERATIONS,
        *HOMES_OPERATIONS,
        *OPERATIONS,
        *RESULTS_OPERATIONS,
        *TRAINING_OPERATIONS,
        *MODELS_OPERATIONS,
        *NODES_OPERATIONS,
        *JOINT_OPERATIONS,
        *VIDEO_OPERATIONS,
        *VIDEO_REQUIREMENT,
        *OBJECTS_OPERATIONS,
        *OWN_OPERATIONS,
    ]
    routes = [
        *KIT_PAGES,
        *ACCOUNTS_PAGES,
        *HOMES_PAGES,
        *CONVERSION_PAGES,
        *TRAINING_PAGES,
        *MODELS_PAGES,
        *NODES_PAGES,
        *JOINT_PAGES,
        *VIDEO_PAGES,
        *NODES_SOCKETS,
        *KUBERNETES_API,
        *(operation.route() for operation in operations),
        Mount("/static", HashedFiles()),
    ]
    app = Starlette(routes=routes, middleware=MIDDLEWARE, exception_handlers=EXCEPTION_HANDLERS, lifespan=_lifespan)
    app.state.settings = settings
    app.state.error_forms = {VIDEO_REQUIREMENT_PATHS: as_refusal}
    app.state.container = container
    app.state.is_prepared = is_this_process
    app.state.doorkeeper = container.authenticator
    app.state.conversion = container.conversion
    app.state.homes = container.homes
    app.state.training = container.training
    app.state.models = container.models
    app.state.nodes = container.nodes
    app.state.joint = container.joint
    app.state.calibrations = container.calibrations
    app.state.video = container.video
    has = {"training": container.training.options.is_on, "sftp": container.homes.sftp.is_on}
    app.state.features = frozenset(name for name, is_there in has.items() if is_there)
    app.state.objects = container.objects
    app.state.upload_limits = UploadLimits(
        settings.uploads_per_user, settings.uploads_at_once, settings.upload_idle_s, settings.upload_least_bytes_per_s
    )
    app.state.kept_answers = AnswerCache(container.redis, settings.secret_key.get_secret_value())
    app.state.hub = ChangeHub(settings.redis_url)
    app.state.collectors = collectors_of(container, viewers=lambda: app.state.hub.viewers)
    app.state.scrape_limiter = CapacityLimiter(SCRAPES_TOGETHER)
    app.state.probe_limiter = CapacityLimiter(PROBES_TOGETHER)
    app.state.openapi = document(
        operations, title="Modelmill", version=version("modelmill"), demands_accounts=settings.demands_accounts
    )
    return app


def collectors_of(container: Container, *, viewers: Callable[[], int]) -> list[Collector]:
    """viewers: open event streams of this process."""
    queues, list_key = container.look_at_queues, container.broker.list_key
    collectors: list[Collector] = [ConversionCollector(container.look, queues, list_key=list_key, viewers=viewers)]
    collectors.append(JointCollector(container.database, container.nodes))
    collectors.append(VideoCollector(container.database))
    if container.training.options.is_on:
        collectors.append(TrainingCollector(container.database, ClusterPicture(container.look)))
    return collectors


def _prepare_or_exit(container: Container) -> None:
    """A server would print a traceback, where the operator needs a sentence."""
    try:
        container.prepare()
    except ModelmillError as error:
        complain(error)
        raise SystemExit(exit_code(error)) from error


@contextlib.asynccontextmanager
async def _lifespan(app: Starlette) -> AsyncIterator[None]:
    open_files.raise_limit()
    container: Container = app.state.container
    if not app.state.is_prepared:
        await run_in_threadpool(container.prepare)
    listening = asyncio.create_task(app.state.hub.run())
    container.pump.start()
    await run_in_threadpool(container.sandbox.start)
    try:
        yield
    finally:
        listening.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await listening
        await run_in_threadpool(container.pump.stop)
        await run_in_threadpool(tracing.flush)
        await run_in_threadpool(container.close)
