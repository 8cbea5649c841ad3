"""The page where a calibration of a service begins: send samples, look at earlier ones."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from multipart import MultipartSegment
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.joint_inference.access import calibrations_of
from app.joint_inference.calibration.model import MAX_SAMPLES
from app.joint_inference.calibration.service import MAX_SET_BYTES
from app.joint_inference.pages.service import service_of
from app.joint_inference.pages.service_list import url_of
from app.kit.clock import now
from app.kit.errors import ModelmillError, NotFound, TooLarge
from app.kit.files.private_folders import make_private
from app.kit.web.auth import user_of
from app.kit.web.common_pages import see_other
from app.kit.web.http import retry_after
from app.kit.web.multipart import multipart_parts, plain_name
from app.kit.web.templates import render
from app.settings import settings_of

FIELD = "samples"


def calibrate(request: Request) -> Response:
    return _page(request, None)


async def begin(request: Request) -> Response:
    """The file streams to the disk of this host, and from there to the store."""
    await run_in_threadpool(service_of, request)  # before anything is taken from the wire
    try:
        async with _received(request) as (path, name):
            return await run_in_threadpool(_begin, request, path, name)
    except NotFound:
        raise
    except ModelmillError as error:
        return await run_in_threadpool(_page, request, error)


def _begin(request: Request, path: Path, name: str) -> Response:
    params = request.path_params
    made = calibrations_of(request).ask(user_of(request), params["namespace"], params["name"], path, name, now=now())
    return see_other(f"/ui/calibrations/{made.calibration_id}")


@asynccontextmanager
async def _received(request: Request) -> AsyncIterator[tuple[Path, str]]:
    """The file of the form and its name; empty if none was chosen. Gone afterwards. Raises TooLarge, BadRequest."""
    work = make_private(settings_of(request).work)
    with tempfile.NamedTemporaryFile(prefix="samples-", dir=work) as file:
        name, size, is_ours = "", 0, False
        async for part in multipart_parts(request, hint="The page Calibrate sends it."):
            if isinstance(part, MultipartSegment):
                is_ours = part.name == FIELD
                name = plain_name(part.filename) if is_ours and part.filename else name
            elif is_ours:
                size += len(part)
                if size > MAX_SET_BYTES:
                    raise TooLarge(
                        f"A set of samples may have {MAX_SET_BYTES >> 20} MiB.",
                        hint="A few hundred pictures are plenty.",
                    )
                await run_in_threadpool(file.write, part)
        file.flush()
        yield Path(file.name), name


def _page(request: Request, problem: ModelmillError | None) -> Response:
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
        earlier=calibrations_of(request).of_service(user_of(request), service.namespace, service.name),
    )
    response.headers.update(retry_after(problem) if problem else {})
    return response


ROUTES = [
    Route("/ui/services/{namespace}/{name}/calibrate", calibrate),
    Route("/ui/services/{namespace}/{name}/calibrate", begin, methods=["POST"]),
]
