"""Requests that may be sent twice and are executed once: `Idempotency-Key`, for every POST that creates something.

The first successful response for a key is stored in Redis for a day, and returned to the same request with the same
key; while the first request runs, duplicates get Retry-After. A key belongs to one caller and one path. A reset of
Redis forgets the keys along with the jobs: persistent objects are distinguished by name, and training tasks keep their
keys in SQL. Responses may contain a secret that is shown once, so they are encrypted.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import inspect
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import redis
from multipart import parse_options_header
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message

from app.kit.errors import BadInput, Conflict
from app.kit.redis.lease import RedisLease
from app.kit.web.auth import caller_of
from app.kit.web.request_lease import hold_for_request
from app.kit.web.state import AppState

if TYPE_CHECKING:
    from cryptography.fernet import Fernet

HEADER, REPLAYED = "Idempotency-Key", "Idempotent-Replayed"
MAX_KEY = 200
SCHEMA = {"type": "string", "pattern": f"^[ -~]{{1,{MAX_KEY}}}$"}
KEEP_S = 86400
LEASE_S = 30.0
KEPT_HEADERS = ("content-type", "location", "cache-control", "warning", "content-language", "vary")
FORM_KEY = "once"
"""Query parameter of a form's action with its one-time key."""
MAX_COMPARED_BYTES = 1 << 20
FORM_PATIENCE_S = 30.0
"""How long a form waits for its duplicate: after a double click, the browser shows the response to the second
request."""
logger = logging.getLogger(__name__)


class KeyReused(Conflict, code="IDEMPOTENCY_KEY_REUSED"):
    """The Idempotency-Key was used with another request."""


class KeyInUse(Conflict, code="IDEMPOTENCY_KEY_IN_USE", can_retry=True):
    """The first request with this Idempotency-Key is still running."""


def check_key(key: str) -> str:
    """Returns the key of a header.

    Raises:
        BadInput: It is not 1 to MAX_KEY printable ASCII characters.
    """
    if not (0 < len(key) <= MAX_KEY and key.isascii() and key.isprintable()):
        problem = f"1 to {MAX_KEY} printable ASCII characters are needed"
        raise BadInput(
            f"{HEADER}: {problem}", hint="A UUID will do.", detail={"problems": [{"at": HEADER, "problem": problem}]}
        )
    return key


@dataclass(frozen=True)
class KeptAnswer:
    """A response, and the request that it belongs to."""

    digest: str
    size_bytes: int
    """Hash of the request's body without its boundaries."""
    status: int
    headers: dict[str, str]
    body: bytes


class AnswerCache:
    """
    Args:
        secret: the key that encrypts the stored responses.
    """

    def __init__(self, client: redis.Redis, secret: str) -> None:
        self._client: Any = client
        self._secret = secret.encode()

    @staticmethod
    def name(request: Request, key: str) -> str:
        parts = (*_identify_caller(request), request.method, request.url.path, key)
        return f"idempotency:{hashlib.sha256(json.dumps(parts).encode()).hexdigest()}"

    def get(self, name: str) -> KeptAnswer | None:
        """Returns the stored response; None: there is none.

        Raises:
            KeyReused: It was encrypted with another secret key.
        """
        sealed = self._client.get(name)
        if sealed is None:
            return None
        from cryptography.fernet import InvalidToken

        try:
            fields = json.loads(self._make_cipher(name).decrypt(sealed))
        except InvalidToken:
            raise KeyReused(
                f"This {HEADER} came before, and its answer cannot be read with the server's present secret key.",
                hint="Look whether it was created; a new request needs a new key.",
            ) from None
        return KeptAnswer(**{**fields, "body": base64.b64decode(fields["body"])})

    def put(self, name: str, kept: KeptAnswer) -> None:
        fields = {**vars(kept), "body": base64.b64encode(kept.body).decode()}
        self._client.set(name, self._make_cipher(name).encrypt(json.dumps(fields).encode()), ex=KEEP_S)

    def lease(self, name: str) -> RedisLease:
        return RedisLease(self._client, f"{name}:lease", ttl_s=LEASE_S)

    def _make_cipher(self, name: str) -> Fernet:
        from cryptography.fernet import Fernet

        return Fernet(base64.urlsafe_b64encode(hmac.digest(self._secret, name.encode(), "sha256")))


kept_answers_of = AppState[AnswerCache]("kept_answers")


def _identify_caller(request: Request) -> tuple[str, str]:
    """Returns what distinguishes the caller from others; on a public path that is the token that the path checks."""
    if not hasattr(request.state, "caller"):
        return request.headers.get("authorization", ""), ""
    caller = caller_of(request)
    return caller.user, caller.node


class Digest:
    """Identifies the same request: query and body. Clients choose the boundary of a multipart body again each time, so
    it is ignored."""

    def __init__(self, request: Request) -> None:
        _, options = parse_options_header(request.headers.get("content-type", ""))
        self._boundary = options.get("boundary", "").encode("latin-1", "replace")
        self._rest = b""
        self._hash = hashlib.sha256(f"{request.url.query}\n".encode())
        self.size_bytes = 0

    def add(self, chunk: bytes) -> None:
        if self._boundary:
            whole = (self._rest + chunk).replace(self._boundary, b"")
            cut = max(0, len(whole) - len(self._boundary) + 1)
            chunk, self._rest = whole[:cut], whole[cut:]
        self._hash.update(chunk)
        self.size_bytes += len(chunk)

    def end(self) -> str:
        self._hash.update(self._rest)
        self.size_bytes += len(self._rest)
        self._rest = b""
        return self._hash.hexdigest()


def once(endpoint: Callable[[Request], Any]) -> Callable[[Request], Any]:
    """Wraps an endpoint so that it honors Idempotency-Key. It may then also raise KeyReused, KeyInUse and BadInput."""

    @wraps(endpoint)
    async def answered(request: Request) -> Response:
        given = request.headers.get(HEADER)
        if given is None:
            return await call(endpoint, request)
        return await _answer_once(endpoint, request, check_key(given))

    return answered


def form_once(endpoint: Callable[[Request], Any]) -> Callable[[Request], Any]:
    """Wraps the endpoint of a form whose action has a one-time key: `?once={{ form_key() }}` in its template.

    If it is sent again, by a double click or a reload, the form is executed once and leads to the same page. A changed
    form is a new request, but is refused if larger than MAX_COMPARED_BYTES. Raises like `once`.
    """

    @wraps(endpoint)
    async def answered(request: Request) -> Response:
        key = request.query_params.get(FORM_KEY)
        if key is None:
            return await call(endpoint, request)
        key = check_key(key)
        if int(request.headers.get("content-length", MAX_COMPARED_BYTES + 1)) <= MAX_COMPARED_BYTES:
            request, digest = await _read(request)
            key = f"{key} {digest}"
        return await _answer_once(endpoint, request, key, patience_s=FORM_PATIENCE_S)

    return answered


async def _read(request: Request) -> tuple[Request, str]:
    """Returns the request with its body in memory, and what distinguishes it from others."""
    digest, body = Digest(request), await request.body()
    digest.add(body)
    messages = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> Message:
        return next(messages, None) or await request.receive()

    return Request(request.scope, receive), digest.end()


async def _answer_once(
    endpoint: Callable[[Request], Any], request: Request, key: str, *, patience_s: float = 0.0
) -> Response:
    answers = kept_answers_of(request)
    name = answers.name(request, key)
    kept = await run_in_threadpool(answers.get, name)
    if kept is None:
        async with hold_for_request(answers.lease(name), wait_s=patience_s) as is_ours:
            if not is_ours:
                raise KeyInUse(
                    f"The first request with this {HEADER} is under way.",
                    hint="Send it again in a moment for its answer.",
                    detail={"retry_after_s": 1},
                )
            kept = await run_in_threadpool(answers.get, name)
            if kept is None:
                return await _answer_first(endpoint, request, answers, name)
    return await _answer_again(request, kept)


async def _answer_first(
    endpoint: Callable[[Request], Any], request: Request, answers: AnswerCache, name: str
) -> Response:
    digest = Digest(request)

    async def receive() -> Message:
        message = await request.receive()
        digest.add(message.get("body", b""))
        return message

    response = await call(endpoint, Request(request.scope, receive))
    if response.status_code < 300 or response.status_code == HTTPStatus.SEE_OTHER:
        values = {key: response.headers.getlist(key) for key in KEPT_HEADERS}
        headers = {key: ", ".join(several) for key, several in values.items() if several}
        made = digest.end()
        kept = KeptAnswer(made, digest.size_bytes, response.status_code, headers, bytes(response.body))
        try:
            await run_in_threadpool(answers.put, name, kept)
        except redis.RedisError as error:  # it is created: to say that it is not would be worse
            logger.warning("The answer to an %s could not be kept: %s", HEADER, error)
    return response


async def _answer_again(request: Request, kept: KeptAnswer) -> Response:
    digest = Digest(request)
    async for chunk in request.stream():
        digest.add(chunk)
        if digest.size_bytes > kept.size_bytes:
            break
    if digest.end() != kept.digest:
        raise KeyReused(
            f"This {HEADER} came before, with another request.",
            hint="Send a new request with a new key, and the same one with the same body.",
        )
    return Response(kept.body, kept.status, {**kept.headers, REPLAYED: "true"})


async def call(endpoint: Callable[[Request], Any], request: Request) -> Response:
    """Calls an endpoint as a route does: in a thread if it is not async."""
    answer: Response = (
        await endpoint(request) if inspect.iscoroutinefunction(endpoint) else await run_in_threadpool(endpoint, request)
    )
    return answer
