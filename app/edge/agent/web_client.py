"""The web server's API for nodes: plain HTTP, each call with the node's token, no retries.

All calls raise ApiError if the web server refuses, and Unreachable if it does not answer, or something else does.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from http import HTTPStatus
from importlib.metadata import PackageNotFoundError, version
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
from modelmill_client import errors

from app.edge.agent.driver import Reply
from app.edge.agent.options import socket_url
from app.kit.cli.api_client import ApiError
from app.kit.cli.command import Unreachable
from app.kit.network.addresses import is_loopback
from app.kit.text.json_values import JsonObject
from app.kit.text.untrusted_json import UnreadableJson, read_object
from app.nodes import wire
from app.nodes.model import Side

WAIT_S = 25
NO_BLOB = "BLOB_NOT_FOUND"
TIMEOUT = httpx.Timeout(connect=5, read=30, write=60, pool=5)
POLL_TIMEOUT = httpx.Timeout(connect=5, read=WAIT_S + 20, write=10, pool=5)
JSON = "application/json"


def agent_version() -> str:
    try:
        return version("modelmill")[:32]
    except PackageNotFoundError:  # pragma: no cover  # a checkout that is not installed
        return ""


class WebClient:
    """A client of one web for one node.

    Attributes:
        token: of the node; empty until it has one.
        is_refused: the web has said that it no longer knows the token.
    """

    def __init__(self, url: str, node: str, token: str = "") -> None:
        self.url = url
        self.token = token
        self.is_refused = False
        self.is_local = is_loopback(urlsplit(url).hostname or "")
        self._link = f"/neptune/link/{quote(node)}"
        self._http = httpx.AsyncClient(
            base_url=url,
            timeout=TIMEOUT,
            trust_env=not self.is_local,  # no proxy for addresses of this machine
        )

    async def close(self) -> None:
        await self._http.aclose()

    @property
    def socket_url(self) -> str:
        return f"{socket_url(self.url)}{self._link}/socket"

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    async def register(self, name: str, side: Side, *, replace: bool, admin_token: str) -> str:
        """Register this machine as a node.

        Args:
            replace: a node of this name loses its token; False: the web refuses.
            admin_token: empty: the web has no users.

        Returns:
            The node's token.
        """
        headers = {"Authorization": f"Bearer {admin_token}"} if admin_token else {}
        body = {"name": name, "side": side.value, "replace": replace}
        async with self._answer("POST", "/neptune/nodes", headers=headers, json=body) as answer:
            token = _require_object(await answer.aread()).get("token")
        if not isinstance(token, str) or not token:
            raise self._make_unreachable()
        return token

    async def check(self) -> None:
        """Checks that the web knows the token, by requesting a file that no order names: a heartbeat would report
        workers before they are adopted.

        Raises:
            ApiError: The web does not know it.
        """
        try:
            async with self.blob("0" * 64, 0):
                return
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            if error.code != NO_BLOB:
                raise self._make_unreachable() from error

    async def report(self, heartbeat: wire.Heartbeat) -> None:
        await self.post(f"{self._link}/report", wire.dump_frame(heartbeat.to_json()).encode(), JSON)

    async def messages(self) -> list[Any]:
        """Returns the frames that this node has not acknowledged; waits up to WAIT_S for some."""
        path = f"{self._link}/messages"
        async with self._answer("GET", path, params={"wait": WAIT_S}, timeout=POLL_TIMEOUT) as answer:
            messages = _require_object(await answer.aread()).get("messages")
        if not isinstance(messages, list):
            raise self._make_unreachable()
        return messages

    async def acknowledge(self, seqs: Collection[int]) -> None:
        body = wire.dump_frame(wire.Acknowledgement(tuple(seqs)).to_json())
        await self.post(f"{self._link}/acknowledge", body.encode(), JSON)

    async def certify(self, request: str) -> str:
        """A certificate for a key of this node, PEM.

        Args:
            request: PEM.
        """
        return await self._fetch_text("POST", "certificate", "certificate", json={"request": request})

    async def authorities(self) -> str:
        """The authorities that certify nodes, and which certificates they have revoked; PEM."""
        return await self._fetch_text("GET", "authorities", "authorities")

    async def _fetch_text(self, method: str, path: str, name: str, **arguments: Any) -> str:
        async with self._answer(method, f"{self._link}/{path}", **arguments) as answer:
            text = _require_object(await answer.aread()).get(name)
        if not isinstance(text, str):
            raise self._make_unreachable()
        return text

    async def post(self, path: str, body: bytes, content_type: str) -> None:
        headers = {**self.headers, "Content-Type": content_type}
        async with self._answer("POST", path, headers=headers, content=body) as answer:
            await answer.aread()

    async def ask(self, path: str, body: bytes, content_type: str, *, authorization: str) -> Reply:
        """Send a POST on behalf of a caller, see `driver.Agent.ask`.

        Args:
            authorization: the caller's header; empty: none is sent.

        Raises:
            Unreachable: The web does not answer.
        """
        headers = {"Content-Type": content_type, **({"Authorization": authorization} if authorization else {})}
        try:
            answer = await self._http.post(path, content=body, headers=headers)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise Unreachable(f"{self.url} does not answer: {error or type(error).__name__}") from error
        return Reply(answer.status_code, answer.content, answer.headers.get("content-type", ""))

    @asynccontextmanager
    async def blob(self, sha256: str, start: int) -> AsyncIterator[httpx.Response]:
        """Opens a file: the response has the bytes from start on if its status is 206, otherwise all of them."""
        headers = {**self.headers, "Accept-Encoding": "identity", **({"Range": f"bytes={start}-"} if start else {})}
        async with self._answer("GET", f"{self._link}/blobs/{sha256}", headers=headers) as answer:
            yield answer

    @asynccontextmanager
    async def _answer(self, method: str, path: str, **arguments: Any) -> AsyncIterator[httpx.Response]:
        arguments.setdefault("headers", self.headers)
        try:
            async with self._http.stream(method, path, **arguments) as answer:
                if not answer.is_success:
                    raise self._make_refusal(answer.status_code, await answer.aread())
                yield answer
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise Unreachable(f"Nothing answers at {self.url}.") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise Unreachable(f"The connection to {self.url} broke: {error or type(error).__name__}") from error

    def _make_refusal(self, status: int, body: bytes) -> ApiError | Unreachable:
        """Distinguishes the web's answer from a proxy's own 5xx, or a redirect to its log-in page."""
        error = _require_object(body).get("error")
        if not isinstance(error, dict) and (status < HTTPStatus.BAD_REQUEST or status >= HTTPStatus.BAD_GATEWAY):
            return Unreachable(f"{self.url} answers HTTP {status} now.")
        refusal = errors.ApiError(status, error if isinstance(error, dict) else {})
        api_error = ApiError(refusal)
        api_error.hint = refusal.hint  # the command line's advice on how to sign in is not for nodes
        return api_error

    def _make_unreachable(self) -> Unreachable:
        return Unreachable(f"What answers at {self.url} is not Modelmill, or of another version.")


def _require_object(body: bytes) -> JsonObject:
    try:
        return read_object(body)
    except UnreadableJson:
        return {}
