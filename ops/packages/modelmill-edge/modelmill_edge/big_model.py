"""Serves a big model of your own to the edge workers of a service: the script of its cloud worker.

def look(picture: Picture) -> Prediction:
    return Prediction(probabilities=tuple(model(picture.array())))

BigModelService.from_environment(look).serve()
"""

from __future__ import annotations

import hmac
import io
import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Union

from multipart import MultipartError, MultipartParser, parse_options_header

from modelmill_edge.picture import Picture
from modelmill_edge.prediction import Prediction

MAX_BODY_BYTES = 17 << 20
Infer = Callable[[Picture], Union[Prediction, Mapping[str, Any]]]
"""Looks at one picture. A mapping has the JSON form: boxes, probabilities."""


class BigModelService:
    """An HTTP server in front of a function that looks at pictures.

    Args:
        infer: the big model; called by one thread at a time.
        service: name of the service.
        host: the address to listen on.
        port: 0: any.
        secret: what edge workers show; empty: anybody may ask.
        labels: names of the classes, by index.
    """

    def __init__(
        self, infer: Infer, *, service: str, host: str, port: int, secret: str, labels: tuple[str, ...] = ()
    ) -> None:
        self.service = service
        self.labels = labels
        self.answered = 0
        self._infer = infer
        self._secret = secret
        self._turn = threading.Lock()
        self._server = _Server((host, port), self)
        self.host, self.port = self._server.server_address[:2]

    @staticmethod
    def from_environment(infer: Infer, *, labels: tuple[str, ...] = ()) -> BigModelService:
        """For a script that an agent starts as the cloud worker of a service.

        Raises:
            KeyError: It was started otherwise.
        """
        variables = os.environ
        return BigModelService(
            infer,
            service=variables["SERVICE_NAME"],
            host=variables["BIG_MODEL_BIND_IP"],
            port=int(variables["BIG_MODEL_BIND_PORT"]),
            secret=variables["BIG_MODEL_SECRET"],
            labels=labels,
        )

    def serve(self) -> None:
        """Until close() or the end of the process."""
        self._server.serve_forever()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer_to(self, picture: Picture) -> dict[str, Any]:
        """The JSON form of the model's answer, with the time it took."""
        with self._turn:
            started = time.perf_counter()
            prediction = self._infer(picture)
            ms = (time.perf_counter() - started) * 1000
            self.answered += 1
        data = prediction.to_json() if isinstance(prediction, Prediction) else dict(prediction)
        return {"boxes": [], "probabilities": [], **data, "ms": round(ms, 3)}

    def admits(self, authorization: str) -> bool:
        shown = authorization[len("Bearer ") :] if authorization.startswith("Bearer ") else ""
        return not self._secret or hmac.compare_digest(shown.encode(), self._secret.encode())


class _Refusal(Exception):
    def __init__(self, status: HTTPStatus, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], service: BigModelService) -> None:
        super().__init__(address, _Handler)
        self.service = service


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        service = self.server.service
        if self.path == f"/{service.service}":
            state = {"service": service.service, "labels": list(service.labels), "answered": service.answered}
            self._answer(HTTPStatus.OK, state)
        else:
            self._refuse(_nothing_here())

    def do_POST(self) -> None:
        try:
            meta, picture = self._request()
            answer = self._predicted(picture)
        except _Refusal as refusal:
            self._refuse(refusal)
        else:
            self._answer(HTTPStatus.OK, {**answer, "id": str(meta.get("id", ""))})

    def _request(self) -> tuple[Mapping[str, Any], Picture]:
        service, body = self.server.service, self._body()
        if self.path != f"/{service.service}/predict":
            raise _nothing_here()
        if not service.admits(self.headers.get("Authorization", "")):
            raise _Refusal(HTTPStatus.UNAUTHORIZED, "UNAUTHORIZED", "The secret of the service is missing.")
        return _parts(self.headers.get("Content-Type", ""), body)

    def _predicted(self, picture: Picture) -> dict[str, Any]:
        try:
            return self.server.service.answer_to(picture)
        except Exception as error:  # the user's model, about anybody's picture
            message = f"{type(error).__name__}: {error}"
            raise _Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "MODEL_FAILED", message) from error

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length", "")
        if not length.isdigit() or int(length) > MAX_BODY_BYTES:
            self.close_connection = True  # what follows is not read
            raise _Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "TOO_LARGE", f"A body may have {MAX_BODY_BYTES} bytes.")
        return self.rfile.read(int(length))

    def _refuse(self, refusal: _Refusal) -> None:
        error = {"code": refusal.code, "message": str(refusal), "hint": "", "detail": {}, "can_retry": False}
        self._answer(refusal.status, {"error": error})

    def _answer(self, status: HTTPStatus, data: Mapping[str, Any]) -> None:
        body = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing: a line for each picture would fill the worker's log."""


def _nothing_here() -> _Refusal:
    return _Refusal(HTTPStatus.NOT_FOUND, "NOT_FOUND", "There is nothing here.")


def _parts(content_type: str, body: bytes) -> tuple[Mapping[str, Any], Picture]:
    """The parts meta and picture of a multipart body. Raises _Refusal."""
    kind, options = parse_options_header(content_type)
    if kind != "multipart/form-data" or not options.get("boundary"):
        raise _Refusal(HTTPStatus.BAD_REQUEST, "BAD_REQUEST", "The body must be multipart/form-data.")
    try:
        parser = MultipartParser(io.BytesIO(body), options["boundary"], memory_limit=MAX_BODY_BYTES)
        parts = {part.name: part for part in parser.parts()}
        meta = json.loads(parts["meta"].raw) if "meta" in parts else {}
        picture = Picture(parts["picture"].raw, parts["picture"].content_type)
    except (MultipartError, ValueError, KeyError) as error:
        message = "The part picture is missing." if isinstance(error, KeyError) else f"The body is damaged: {error}."
        raise _Refusal(HTTPStatus.BAD_REQUEST, "BAD_REQUEST", message) from None
    return meta, picture
