"""The page of demonstrations, and the buttons that start and remove one."""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.demonstrations.access import demonstrations_of
from app.demonstrations.errors import DemonstrationUnknown
from app.demonstrations.service import CHANNEL, DemoName
from app.kit.network.addresses import reachable_url
from app.kit.web.common_pages import see_other
from app.kit.web.idempotency import form_once
from app.kit.web.live_fragment import fragment, version_of
from app.kit.web.sse import changes_of
from app.kit.web.state import features_of
from app.kit.web.templates import TemplateContext, render

PAGE = "/ui/demonstrations"


def page(request: Request) -> Response:
    return render(request, "demonstrations/demonstrations.html", area="demonstrations", **_build_context(request))


def live(request: Request) -> Response:
    return fragment(request, "demonstrations/_demonstrations_live.html", _build_context(request))


async def start(request: Request) -> Response:
    url = reachable_url(*request.scope["server"])
    await run_in_threadpool(demonstrations_of(request).start, _name(request), url)
    return see_other(PAGE)


async def stop(request: Request) -> Response:
    await run_in_threadpool(demonstrations_of(request).stop, _name(request))
    return see_other(PAGE)


def _name(request: Request) -> DemoName:
    try:
        return DemoName(request.path_params["name"])
    except ValueError:
        names = "There are joint, video and training."
        raise DemonstrationUnknown("There is no such demonstration.", hint=names) from None


def _build_context(request: Request) -> TemplateContext:
    demonstrations = demonstrations_of(request)
    views = demonstrations.views()
    return {"views": views, "seen": version_of(views, "training" in features_of(request))}


ROUTES = [
    Route(PAGE, page),
    Route(f"{PAGE}/live", live),
    Route(f"{PAGE}/events", changes_of(CHANNEL)),
    Route(PAGE + "/{name}/start", form_once(start), methods=["POST"]),
    Route(PAGE + "/{name}/stop", stop, methods=["POST"]),
]
