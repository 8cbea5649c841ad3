"""The page where a calibration of a service starts: upload samples, or view earlier calibrations."""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.joint_inference.access import calibrations_of, read_service_name
from app.joint_inference.calibration.model import MAX_SAMPLES
from app.joint_inference.calibration_upload import receive_samples
from app.joint_inference.pages.service import service_of
from app.joint_inference.pages.service_list import url_of
from app.joint_inference.service.collection import collection_folder
from app.kit.clock import now
from app.kit.errors import ModelmillError, NotFound
from app.kit.web.auth import user_of
from app.kit.web.common_pages import see_other
from app.kit.web.forms import SentFile
from app.kit.web.http import retry_after
from app.kit.web.templates import render


def calibrate(request: Request) -> Response:
    return _render_page(request, None)


async def begin(request: Request) -> Response:
    """Starts a calibration. The file is streamed to the disk of this host, and from there to the store."""
    await run_in_threadpool(service_of, request)  # before any of the body is read
    try:
        async with receive_samples(request) as samples:
            return await run_in_threadpool(_begin, request, samples)
    except NotFound:
        raise
    except ModelmillError as error:
        return await run_in_threadpool(_render_page, request, error)


def _begin(request: Request, file: SentFile) -> Response:
    service = read_service_name(request)
    made = calibrations_of(request).ask(user_of(request), *service, file.path, file.name, now=now())
    return see_other(f"/ui/calibrations/{made.calibration_id}")


async def begin_collected(request: Request) -> Response:
    """Starts a calibration with the hard samples that the service has stored."""
    return await run_in_threadpool(_begin_collected, request)


def _begin_collected(request: Request) -> Response:
    service = read_service_name(request)
    try:
        made = calibrations_of(request).ask_of_collected(user_of(request), *service, "", now=now())
    except NotFound:
        raise
    except ModelmillError as error:
        return _render_page(request, error)
    return see_other(f"/ui/calibrations/{made.calibration_id}")


def _render_page(request: Request, problem: ModelmillError | None) -> Response:
    service = service_of(request)
    response = render(
        request,
        "joint_inference/calibrate.html",
        problem.status if problem else 200,
        area="services",
        service=service,
        url=url_of(service.namespace, service.name),
        specification=service.specification,
        problem=problem,
        most=MAX_SAMPLES,
        collected=collection_folder(service),
        earlier=calibrations_of(request).of_service(user_of(request), service.namespace, service.name),
    )
    response.headers.update(retry_after(problem) if problem else {})
    return response


ROUTES = [
    Route("/ui/services/{namespace}/{name}/calibrate", calibrate),
    Route("/ui/services/{namespace}/{name}/calibrate", begin, methods=["POST"]),
    Route("/ui/services/{namespace}/{name}/calibrate/collected", begin_collected, methods=["POST"]),
]
