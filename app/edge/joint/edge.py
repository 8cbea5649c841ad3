"""The bundled edge worker: `python -m app.edge.joint.edge`, started by the agent of an edge node.

Answers GET /healthz and POST /<service>/predict, and runs a stream of each source that its parameter `source` names.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from app.edge.joint.joint import JointInference
from app.edge.joint.outcome import SampleOutcome
from app.edge.joint.request_pictures import MAX_PICTURE_BYTES, MAX_TEXT_BYTES, picture_of
from app.edge.joint.stream import SourceStreams
from app.edge.joint.work import Work
from app.edge.worker_server import HANDLERS, HINT, listen, serve
from app.kit.errors import BadRequest, TooMany
from app.kit.web.forms import small_parts
from app.kit.web.multipart import Part

THREADS = 16
MAX_WAITING = 64
MAX_ID = 128
LIMITS = {"picture": MAX_PICTURE_BYTES, "id": MAX_TEXT_BYTES}


class EdgeServer:
    """Each request occupies a thread, at most until the deadline; more than MAX_WAITING requests are refused."""

    def __init__(self, joint: JointInference, service: str) -> None:
        self.joint = joint
        self.service = service
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="caller")
        self._under_way = 0
        self.app = Starlette(
            routes=[
                Route("/healthz", self._answer_health),
                Route(f"/{service}", self._answer_health),
                Route(f"/{service}/predict", self._predict, methods=["POST"]),
            ],
            exception_handlers=HANDLERS,
        )

    async def _answer_health(self, _: Request) -> Response:
        return JSONResponse({"service": self.service, "status": self.joint.status, **self.joint.detail})

    async def _predict(self, request: Request) -> Response:
        if self._under_way >= MAX_WAITING:
            raise TooMany("Too many pictures are being looked at.", hint="Send it again in a moment.")
        self._under_way += 1
        try:
            parts = await small_parts(request, LIMITS, hint=HINT)
            outcome = await asyncio.get_running_loop().run_in_executor(self._threads, self._build_outcome, parts)
        finally:
            self._under_way -= 1
        return JSONResponse(outcome.to_json())

    def _build_outcome(self, parts: dict[str, Part]) -> SampleOutcome:
        sample_id = parts["id"].data.decode("utf-8", "replace").strip() if "id" in parts else ""
        if len(sample_id) > MAX_ID or not sample_id.isprintable():
            raise BadRequest(f"An id may have {MAX_ID} printable characters.")
        return self.joint.infer(picture_of(parts), id=sample_id)


def run(work: Work) -> None:
    """Run until SIGTERM. It listens before it reports that it is running."""
    listening = listen(work.host, work.port)
    with JointInference.of(work) as joint:
        has_several_nodes = bool(work.content.specification.edge.selector)
        streams = SourceStreams(joint, work.media_server, work.node if has_several_nodes else "")
        streams.start()
        serve(EdgeServer(joint, work.service).app, host=work.host, port=work.port, listening=listening)
        streams.close()


if __name__ == "__main__":
    run(Work.from_environment())
