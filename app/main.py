"""The ASGI application: settings → Starlette(routes, middleware, lifespan). An application is a value."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from importlib.metadata import version

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route

from app.conversion.api import OPERATIONS
from app.conversion.pages import ROUTES as CONVERSION_PAGES
from app.conversion.schemas import Health
from app.kit.events import NudgeHub
from app.kit.http import EXCEPTION_HANDLERS
from app.kit.objects.routes import get_object, put_object
from app.kit.openapi import Operation, document
from app.kit.pages import ROUTES as KIT_PAGES
from app.kit.security import SameOriginOnly, SecurityHeaders
from app.kit.static import HashedFiles
from app.settings import Settings, load_settings
from app.wiring import Parts, assemble


def healthz(_: Request) -> Response:
    return JSONResponse({"status": "ok"})


def readyz(request: Request) -> Response:
    """Ready when Redis and the object store answer; otherwise 503 says which does not."""
    parts: Parts = request.app.state.parts
    parts.redis.ping()
    parts.objects.check()
    return JSONResponse({"status": "ok"})


def openapi(request: Request) -> Response:
    return JSONResponse(request.app.state.openapi)


OWN_OPERATIONS = [
    Operation("GET", "/healthz", healthz, "Is the web process alive?", {200: Health}),
    Operation("GET", "/readyz", readyz, "Can it reach Redis and the object store?", {200: Health}, errors=(503, 507)),
]


MIDDLEWARE = [Middleware(SecurityHeaders), Middleware(SameOriginOnly)]


def create_app(settings: Settings | None = None) -> Starlette:
    settings = settings or load_settings()
    parts = assemble(settings)
    operations = [*OPERATIONS, *OWN_OPERATIONS]
    routes = [
        *KIT_PAGES,
        *CONVERSION_PAGES,
        Route("/openapi.json", openapi),
        *(operation.route() for operation in operations),
        Route("/objects/{key:path}", put_object, methods=["PUT"]),
        Route("/objects/{key:path}", get_object, methods=["GET"]),
        Mount("/static", HashedFiles()),
    ]
    app = Starlette(routes=routes, middleware=MIDDLEWARE, exception_handlers=EXCEPTION_HANDLERS, lifespan=_lifespan)
    app.state.settings = settings
    app.state.parts = parts
    app.state.conversion = parts.conversion
    app.state.objects = parts.objects
    app.state.hub = NudgeHub(settings.redis_url)
    app.state.openapi = document(operations, title="Modelmill", version=version("modelmill"))
    return app


@contextlib.asynccontextmanager
async def _lifespan(app: Starlette) -> AsyncIterator[None]:
    parts: Parts = app.state.parts
    listening = asyncio.create_task(app.state.hub.run())
    await run_in_threadpool(parts.sandbox.start)
    try:
        yield
    finally:
        listening.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await listening
        await run_in_threadpool(parts.close)
