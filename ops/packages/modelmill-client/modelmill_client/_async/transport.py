"""Requests to the service: who asks where, what is tried again, what an answer means."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Callable
from urllib.parse import urlsplit
from uuid import uuid4

import httpx

from modelmill_client import waits
from modelmill_client.errors import (
    ApiError,
    BadInput,
    BadUrl,
    Damaged,
    ModelmillError,
    NotFound,
    Unauthorized,
    Unreachable,
    error_of,
)

DEFAULT_URL = "http://127.0.0.1:8080"
TIMEOUT = httpx.Timeout(connect=5, read=300, write=300, pool=5)
CHUNK_BYTES = 1 << 20
GATEWAY_STATUSES = {502, 503, 504}
"""Of a proxy, while the service behind it is starting or gone."""
EMPTY_ID = "Give the id as the list shows it."
Body = Callable[[], contextlib.AbstractContextManager[dict[str, Any]]]
"""Opens what a request sends, anew for each try."""
OnBytes = Callable[[int], None]


class AsyncTransport:
    """
    Args:
        url: Of the service.
        token: An API token; without one the service knows only who is on its own machine.
        retries: How often a request is tried again that did not get through, or that came at a bad time.
        transport: Of httpx, for tests.
    """

    def __init__(
        self, url: str, token: str = "", *, retries: int = 3, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self.url = url.rstrip("/")
        self.retries = retries
        if not (token.isascii() and token.isprintable()) or " " in token:
            message = "the token has characters that no token has"
            raise Unauthorized(401, {"code": "TOKEN_REFUSED", "message": message, "hint": "Copy it again: mm_…"})
        try:
            is_local = urlsplit(self.url).hostname in {"127.0.0.1", "localhost", "::1"}
            self._http = httpx.AsyncClient(
                base_url=self.url,
                timeout=TIMEOUT,
                transport=transport,
                trust_env=not is_local,  # no proxy to ourselves
                headers={"Authorization": f"Bearer {token}"} if token else {},
            )
        except (ValueError, httpx.InvalidURL) as error:
            raise self._bad_url(str(error)) from error

    async def aclose(self) -> None:
        await self._http.aclose()

    async def json(self, method: str, path: str, *, body: Body | None = None, **arguments: Any) -> dict[str, Any]:
        """The object that is answered; empty where the answer has no body.

        Args:
            method: Of HTTP. What creates is given an Idempotency-Key, so that a second try makes no second thing.
            path: Below the URL.
            body: Opens what is sent from disk.
            arguments: httpx' own: params, json, content, headers.

        Raises:
            ApiError: The service refused.
            Unreachable: No answer, or none of Modelmill's.
        """
        if method == "POST":
            headers = arguments.get("headers") or {}
            arguments["headers"] = {"Idempotency-Key": uuid4().hex, **headers}
        tries = 0
        while True:
            tries += 1
            try:
                return await self._once(method, path, body, arguments)
            except (ApiError, Unreachable) as error:
                if method == "DELETE" and tries > 1 and isinstance(error, NotFound):
                    return {}  # the try before has done it, and its answer was lost
                await self._pause(tries, error)

    async def save(self, path: str, target: Path, sha256: str, on_bytes: OnBytes = lambda _: None) -> Path:
        """Download into target, under another name until its SHA-256 has been checked; from the beginning where it
        broke off.

        Args:
            path: Below the URL.
            target: The file to write.
            sha256: The announced digest.
            on_bytes: Gets the number of bytes of each piece; a negative one if they are to be fetched again.

        Raises:
            ApiError: The service refused.
            Damaged: The digest is not the announced one.
            Unreachable: No answer, however often it was tried.
        """
        tries = 0
        while True:
            tries += 1
            try:
                return await self._save(path, target, sha256, on_bytes)
            except (ApiError, Unreachable) as error:
                await self._pause(tries, error)

    async def _save(self, path: str, target: Path, sha256: str, on_bytes: OnBytes) -> Path:
        draft, digest, received = target.with_name(f".{target.name}.part"), hashlib.sha256(), 0
        try:
            with draft.open("wb") as file:
                async with self.answer("GET", path) as answer:
                    async for chunk in answer.aiter_bytes(CHUNK_BYTES):
                        digest.update(chunk)
                        file.write(chunk)
                        received += len(chunk)
                        on_bytes(len(chunk))
            if digest.hexdigest() != sha256:
                raise Damaged(f"{target.name} was damaged on the way", hint="Download it again.")
            return draft.replace(target)
        except (ApiError, Unreachable):
            on_bytes(-received)
            raise
        finally:
            with contextlib.suppress(FileNotFoundError):
                draft.unlink()

    @contextlib.asynccontextmanager
    async def answer(self, method: str, path: str, **arguments: Any) -> AsyncIterator[httpx.Response]:
        """Return a successful answer, its body not yet read.

        Raises:
            ApiError: The service refuses.
            BadInput: An id in the path is empty, so that it is another path; or a number is none that JSON has.
            Unreachable: Nothing answers.
            BadUrl: The address of the service is no URL.
        """
        if path.endswith("/") or "//" in path:
            raise BadInput(400, {"code": "BAD_REQUEST", "message": "an id is empty", "hint": EMPTY_ID})
        try:
            json.dumps(arguments.get("json"), allow_nan=False)
        except ValueError as error:
            message = "a number of the request is infinite or NaN"
            raise BadInput(400, {"code": "BAD_REQUEST", "message": message, "hint": "Give a finite number."}) from error
        try:
            async with self._http.stream(method, path, **arguments) as answer:
                if answer.is_error:
                    raise self._refusal(answer, await answer.aread())
                yield answer
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise Unreachable(
                f"nothing answers at {self.url}", hint="Is the service running, and is that its address?"
            ) from error
        except (httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
            raise self._bad_url(str(error)) from error
        except httpx.TransportError as error:
            raise Unreachable(f"the connection to {self.url} broke: {error or type(error).__name__}") from error

    async def _pause(self, tries: int, error: ModelmillError) -> None:
        """Waits before another try; raises the error if there is to be none."""
        if tries > self.retries or not error.can_retry:
            raise error
        await asyncio.sleep(waits.pause_s(tries, str(error.detail.get("retry_after_s", ""))))

    async def _once(self, method: str, path: str, body: Body | None, arguments: Mapping[str, Any]) -> dict[str, Any]:
        with body() if body is not None else contextlib.nullcontext({}) as sent:
            async with self.answer(method, path, **{**arguments, **sent}) as answer:
                text = await answer.aread()
                if not text and answer.status_code == httpx.codes.NO_CONTENT:
                    return {}
        parsed = _parsed(text)
        if not isinstance(parsed, dict):
            raise self._stranger()
        return parsed

    def _refusal(self, answer: httpx.Response, text: bytes) -> Exception:
        parsed = _parsed(text)
        if not isinstance(parsed, dict) or not isinstance(parsed.get("error"), dict):
            return self._no_gateway(answer) if answer.status_code in GATEWAY_STATUSES else self._stranger()
        error = error_of(answer.status_code, parsed["error"])
        if "retry-after" in answer.headers:
            error.detail.setdefault("retry_after_s", answer.headers["retry-after"])
        return error

    def _no_gateway(self, answer: httpx.Response) -> Unreachable:
        what = f"a proxy at {self.url} does not reach the service: HTTP {answer.status_code}"
        error = Unreachable(what, hint="Is the service running?")
        error.detail["retry_after_s"] = answer.headers.get("retry-after", "")
        return error

    def _stranger(self) -> Unreachable:
        error = Unreachable(f"what answers at {self.url} is not Modelmill", hint="Check the address.")
        error.can_retry = False
        return error

    def _bad_url(self, why: str) -> BadUrl:
        return BadUrl(f"{self.url} is no address: {why}", hint=f"It should look like {DEFAULT_URL}.")


def _parsed(body: bytes) -> Any:
    with contextlib.suppress(ValueError):
        return json.loads(body)
    return None
