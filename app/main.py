"""The ASGI application: settings → Starlette(routes, middleware, lifespan). An application is a value."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from functools import cache, partial
from importlib.metadata import version

from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Mount

from app.bootstrap.capabilities import CAPABILITIES
from app.bootstrap.container import Container, assemble, container_of
from app.bootstrap.health import healthz, readyz
from app.conversion.schemas import Health
from app.demonstrations.service import DemoName
from app.kit.capability import WebPart
from app.kit.cli.command import complain, exit_code
from app.kit.errors import ModelmillError
from app.kit.objects.routes import OPERATIONS as OBJECTS_OPERATIONS
from app.kit.observability import logs, tracing
from app.kit.observability.metrics_page import collectors_of, metrics
from app.kit.observability.request_log import RequestLog
from app.kit.process import own_process
from app.kit.redis.change_hub import ChangeHub
from app.kit.web.api_page import ROUTES as API_PAGE
from app.kit.web.api_page import document_of
from app.kit.web.auth import Authentication
from app.kit.web.body_limits import BodyLimits, UploadLimits, upload_limits_of
from app.kit.web.common_pages import NAVIGATION as KIT_NAVIGATION
from app.kit.web.common_pages import ROUTES as KIT_PAGES
from app.kit.web.http import EXCEPTION_HANDLERS, error_forms_of
from app.kit.web.idempotency import AnswerCache, kept_answers_of
from app.kit.web.navigation import in_order, navigation_of
from app.kit.web.openapi import document
from app.kit.web.operations import Operation
from app.kit.web.resource_versions import with_versions
from app.kit.web.security import KnownHostsOnly, SameOriginOnly, SecurityHeaders
from app.kit.web.sse import hub_of
from app.kit.web.state import features_of
from app.kit.web.static import HashedFiles
from app.settings import Settings, load_settings


def openapi(request: Request) -> Response:
    return JSONResponse(document_of(request)())


OWN_OPERATIONS = [
    Operation("GET", "/healthz", healthz, "Check that the web process is alive", {200: Health}, callers=()),
    Operation(
        "GET",
        "/readyz",
        readyz,
        "Check that Redis, the object store and the database are reachable",
        {200: Health},
        errors=(503,),
        callers=(),
    ),
    Operation("GET", "/openapi.json", openapi, "Get this document", {200: ("application/json",)}, callers=()),
    Operation(
        "GET", "/metrics", metrics, "Get metrics for Prometheus", {200: ("text/plain",)}, errors=(401,), callers=()
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


@cache
def collect_declarations() -> tuple[Sequence[WebPart], Sequence[Operation], Sequence[BaseRoute]]:
    """Returns what the capabilities declare for the web. All applications of a process share it, so it is made once."""
    parts = [capability.web() for capability in CAPABILITIES]
    of_capabilities = (operation for part in parts for operation in part.operations)
    operations = with_versions([*of_capabilities, *OBJECTS_OPERATIONS, *OWN_OPERATIONS])
    routes = [
        *KIT_PAGES,
        *API_PAGE,
        *(page for part in parts for page in part.pages),
        *(route for part in parts for route in part.routes),
        *(operation.route() for operation in operations),
        Mount("/static", GZipMiddleware(HashedFiles(), minimum_size=1024)),
    ]
    return parts, operations, routes


def create_app(settings: Settings | None = None, *, is_prepared: bool = False) -> Starlette:
    """Makes the application.

    Args:
        settings: without them it is the one of this process: from the environment, and its logs with it.
        is_prepared: of this process; `prepare` was called in another.
    """
    is_this_process = settings is None
    if settings is None:
        settings = load_settings()
        logs.configure(settings.log_format, settings.log_level)
        tracing.configure("web")
    container = assemble(settings)
    if is_this_process and not is_prepared:
        _prepare_or_exit(container)
    parts, operations, routes = collect_declarations()
    app = Starlette(
        routes=list(routes),
        middleware=MIDDLEWARE,
        exception_handlers=EXCEPTION_HANDLERS,
        lifespan=partial(_lifespan, is_prepared=is_this_process),
    )
    error_forms_of.put(app, {paths: form for part in parts for paths, form in part.error_forms.items()})
    _attach_services(app, container)
    describe = partial(
        document,
        operations,
        title="Modelmill",
        version=version("modelmill"),
        demands_accounts=settings.demands_accounts,
    )
    document_of.put(app, cache(describe))  # it is large, and few ever ask for it
    return app


def _attach_services(app: Starlette, container: Container) -> None:
    """Attaches what endpoints and middleware read through their typed accessors."""
    settings, hub = container.settings, ChangeHub(container.settings.redis_url)
    container_of.put(app, container)
    hub_of.put(app, hub)
    has = {
        "training": container.training.options.is_on,
        "sftp": container.homes.sftp.is_on,
        "demonstrations": container.demonstrations.is_offered,
        "training_setup": container.demonstrations.offers(DemoName.TRAINING),
    }
    features_of.put(app, frozenset(name for name, is_there in has.items() if is_there))
    entries = (entry for capability in CAPABILITIES for entry in capability.navigation)
    navigation_of.put(app, in_order((*entries, *KIT_NAVIGATION)))
    limits = UploadLimits(
        settings.uploads_per_user, settings.uploads_at_once, settings.upload_idle_s, settings.upload_least_bytes_per_s
    )
    upload_limits_of.put(app, limits)
    kept_answers_of.put(app, AnswerCache(container.redis, settings.secret_key.get_secret_value()))
    collectors_of.put(app, collectors(container, viewers=lambda: hub.viewers))


def collectors(container: Container, *, viewers: Callable[[], int]) -> list[Collector]:
    """viewers: open event streams of this process."""
    return [one for capability in CAPABILITIES for one in capability.collectors(container, viewers)]


def prepare() -> None:
    """Prepares what the application of this process needs before it serves. Exits as the application would."""
    settings = load_settings()
    logs.configure(settings.log_format, settings.log_level)
    container = assemble(settings)
    _prepare_or_exit(container)
    container.close()


def _prepare_or_exit(container: Container) -> None:
    """A server would print a traceback, where the operator needs a sentence."""
    try:
        container.prepare()
    except ModelmillError as error:
        complain(error)
        raise SystemExit(exit_code(error)) from error


@contextlib.asynccontextmanager
async def _lifespan(app: Starlette, *, is_prepared: bool) -> AsyncIterator[None]:
    own_process.raise_limit()
    container, hub = container_of.held(app), hub_of.held(app)
    if not is_prepared:
        await run_in_threadpool(container.prepare)
    listening = asyncio.create_task(hub.run())
    container.exporter.start()
    await run_in_threadpool(container.sandbox.start)
    try:
        yield
    finally:
        listening.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await listening
        await run_in_threadpool(container.exporter.stop)
        await run_in_threadpool(tracing.flush)
        await run_in_threadpool(container.close)
