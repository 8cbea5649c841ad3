"""The big model's server: `python -m app.edge.joint.cloud`, started by the agent of a cloud node.

GET /<service> returns its state; POST /<service>/predict, with the service's secret, predicts one picture.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from app.edge.joint.joint import COMPLETED, RUNNING
from app.edge.joint.reporter import StatusReporter
from app.edge.joint.request_pictures import MAX_PICTURE_BYTES, MAX_TEXT_BYTES, picture_of, shape_of
from app.edge.joint.work import Work, model_of
from app.edge.worker_server import HANDLERS, HINT, check_bearer, json_of, listen, serve
from app.inference.predictor import Predictor
from app.inference.predictor_factory import open_predictor
from app.joint_inference.worker_options import cloud_options
from app.kit.clock import ms_since
from app.kit.errors import BadRequest, TooMany
from app.kit.text.json_values import JsonObject
from app.kit.web.forms import small_parts
from app.kit.web.multipart import Part

WAITING_PER_THREAD = 16
"""More pictures than this are refused, since their edges would give up before their turn."""
MOST_THREADS = 128
LIMITS = {"meta": MAX_TEXT_BYTES, "picture": MAX_PICTURE_BYTES}


class CloudServer:
    """The big model behind HTTP, with a bounded number of requests in progress.

    Args:
        predictor: of the big model.
        service: name, the first part of the path.
        model: name of the big model.
        secret: that edges send.
        threads: calls of the model at the same time.
        batch: pictures in a call, at most.
    """

    def __init__(
        self, predictor: Predictor, *, service: str, model: str, secret: str, threads: int, batch: int
    ) -> None:
        self.predictor = predictor
        self.service = service
        self.model = model
        self._secret = secret
        self._limit = threads * max(WAITING_PER_THREAD, 2 * batch)
        # A picture that waits for others has a thread; as many prepare the pictures of the next call.
        pool = threads if batch == 1 else min(2 * threads * batch, MOST_THREADS)
        self._threads = ThreadPoolExecutor(pool, thread_name_prefix="picture")
        self._under_way = 0
        self._answered = 0
        self.app = Starlette(
            routes=[
                Route(f"/{service}", self._answer_health),
                Route(f"/{service}/predict", self._predict, methods=["POST"]),
            ],
            exception_handlers=HANDLERS,
        )

    async def _answer_health(self, _: Request) -> Response:
        predictor = self.predictor
        return JSONResponse(
            {
                "service": self.service,
                "model": self.model,
                "runtime": predictor.runtime,
                "why": predictor.why,
                "labels": list(predictor.labels),
                "answered": self._answered,
            }
        )

    async def _predict(self, request: Request) -> Response:
        self._check(request)
        if self._under_way >= self._limit:
            raise TooMany("Too many pictures wait for the big model.", hint="Send it again in a moment.")
        self._under_way += 1
        try:
            parts = await small_parts(request, LIMITS, hint=HINT)
            answer = await asyncio.get_running_loop().run_in_executor(self._threads, self._answer, parts)
        finally:
            self._under_way -= 1
        self._answered += 1
        return JSONResponse(answer)

    def _check(self, request: Request) -> None:
        check_bearer(request.headers, self._secret, hint="Its edge worker knows it.")

    def _answer(self, parts: dict[str, Part]) -> JsonObject:
        started = time.perf_counter()
        meta = json_of(parts.get("meta"), "meta")
        picture = picture_of(parts)
        shape = shape_of(picture)
        if meta.get("shape") not in (None, shape):
            raise BadRequest(f"The picture has the shape {shape}, and meta says {str(meta['shape'])[:80]}.")
        prediction = self.predictor.predict(picture)
        about = {
            "id": str(meta.get("id", ""))[:128],
            "server_ms": round(ms_since(started), 3),
            "model": self.model,
        }
        return {**prediction.to_json(), **about}


def run(work: Work) -> None:
    options = cloud_options(work.parameters)
    card = work.content.model
    card = replace(card, labels=options.labels or card.labels)
    # Several pictures in parallel are faster than one on all cores.
    predictor = open_predictor(card, work.model, work.twin, replace(options.predictor, threads=1))
    predictor.refuse_guess()
    server = CloudServer(
        predictor,
        service=work.service,
        model=card.name,
        secret=work.content.secret,
        threads=options.predictor.threads,
        batch=options.predictor.batching.most,
    )
    listening = listen(work.host, work.port)  # before it reports itself as running
    report = {"status": RUNNING, "detail": {"runtime": predictor.runtime, "why": predictor.why, **model_of(work)}}
    reporter = StatusReporter(work, lambda: report)
    reporter.start()
    tls = work.tls if work.is_encrypted else None
    if tls is not None:
        tls.watch()
    try:
        serve(server.app, host=work.host, port=work.port, listening=listening, tls=tls)
    finally:
        report["status"] = COMPLETED
        reporter.close()
        predictor.close()


if __name__ == "__main__":
    run(Work.from_environment())
