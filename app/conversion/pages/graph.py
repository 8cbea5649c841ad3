"""The graph viewer: Netron's static page, served from its package and kept from contacting other hosts.

By default, its page looks up the reader's country, sends usage reports and refuses to open after half a year. With
version 0.0.0, no date and the consent cookie set it does none of this, and the policy below forbids it as well.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlencode

from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from app.conversion.access import conversion_of
from app.conversion.service.graphs import GraphFile, graph_bytes, graph_file, graph_files
from app.kit.errors import NotFound
from app.kit.web.auth import user_of
from app.kit.web.security import POLICY
from app.kit.web.templates import render

PATH = "/ui/netron"
SERVED = (".js", ".json", ".css", ".png", ".ico")
"""Only these files of the package are served; it contains Python files, too."""
FRAMING_POLICY = f"{POLICY}; frame-src 'self'"
VIEWER_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
"""Netron uses inline styles; its scripts are files."""
_VERSION = re.compile(r'<meta name="version" content="[^"]*">')
_DATE = re.compile(r'<meta name="date" content="[^"]*">\n?')


def show(request: Request) -> Response:
    """Renders the viewer in a frame, with a tab for each graph of the job."""
    conversion = conversion_of(request)
    job = conversion.jobs.get(request.path_params["job_id"], user_of(request))
    file = graph_file(job, request.path_params["artifact"])
    response = render(
        request,
        "conversion/graph.html",
        area="jobs",
        job=job,
        file=file,
        files=graph_files(job),
        viewer=viewer_url(job.job_id, file),
    )
    response.headers["Content-Security-Policy"] = FRAMING_POLICY
    return response


def model(request: Request) -> Response:
    """Sends the graph's file to the viewer."""
    conversion = conversion_of(request)
    job = conversion.jobs.get(request.path_params["job_id"], user_of(request))
    file = graph_file(job, request.path_params["artifact"])
    graph = graph_bytes(conversion, file)
    headers = {"Content-Length": str(graph.size_bytes), "Cache-Control": "private, no-cache"}
    return StreamingResponse(graph.chunks, media_type="application/octet-stream", headers=headers)


def viewer_url(job_id: str, file: GraphFile) -> str:
    source = f"/ui/jobs/{job_id}/graph/{file.name}/model"
    return f"{PATH}/?{urlencode({'url': source, 'identifier': file.shown_as})}"


class NetronFiles(StaticFiles):
    """Netron's static files; everything else in its package is not found."""

    def __init__(self) -> None:
        super().__init__(directory=netron_folder())

    async def get_response(self, path: str, scope: Scope) -> Response:
        if path in (".", "index.html"):
            response: Response = HTMLResponse(viewer_page(), headers={"Cache-Control": "no-cache"})
            response.set_cookie("consent", "none", path=PATH, samesite="strict")
        elif path.endswith(SERVED):
            response = await super().get_response(path, scope)
            response.headers["Cache-Control"] = "no-cache"
        else:
            raise NotFound(f"The graph viewer has no file {path!r}.")
        response.headers["Content-Security-Policy"] = VIEWER_POLICY
        return response


@cache
def viewer_page() -> str:
    """Returns Netron's index.html without the parts that contact other hosts."""
    text = (netron_folder() / "index.html").read_text("utf-8")
    return _DATE.sub("", _VERSION.sub('<meta name="version" content="0.0.0">', text))


def netron_folder() -> Path:
    """Returns the folder of the netron package."""
    spec = find_spec("netron")  # located without importing it: only its files are needed
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


ROUTES = [
    Route("/ui/jobs/{job_id}/graph/{artifact}", show),
    Route("/ui/jobs/{job_id}/graph/{artifact}/model", model),
    Mount(PATH, GZipMiddleware(NetronFiles(), minimum_size=1024, compresslevel=5)),
]
