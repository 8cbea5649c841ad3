"""A POST to an address given by a user."""

from __future__ import annotations

import base64
import os
import secrets
import ssl
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING

from app.kit.network.addresses import Network
from app.kit.network.public_hosts import AddressRefused, pin_host

if TYPE_CHECKING:
    import httpx


SECRET_BYTES = 32
BROKEN = "the connection broke before there was an answer"


def new_signing_secret() -> str:
    """Returns a secret that signs requests, in the form of Standard Webhooks."""
    return f"whsec_{base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()}"


class NotSent(Exception):
    """There was no answer; the text gives the reason."""


async def http_post(url: str, body: bytes, headers: Mapping[str, str], networks: Sequence[Network]) -> httpx.Response:
    """Sends one request. The body of the response is not read, because it is irrelevant and may be endless.

    Args:
        url: The target.
        body: JSON.
        headers: Additional headers.
        networks: Private networks that may be reached.

    Raises:
        NotSent: There was no answer.
    """
    import httpx  # imported late because it loads much

    try:
        target, host, extensions = await pin_host(url, networks)
    except AddressRefused as error:
        raise NotSent(error.message) from error
    except (OSError, UnicodeError) as error:
        raise NotSent(f"its host cannot be resolved: {getattr(error, 'strerror', None) or error}") from error
    usual = {"Content-Type": "application/json", "User-Agent": f"modelmill/{version('modelmill')}"}
    request = httpx.Request("POST", target, content=body, headers={**usual, **headers, **host}, extensions=extensions)
    try:
        context = _open_context(ssl.get_default_verify_paths())
        async with httpx.AsyncClient(trust_env=False, follow_redirects=False, timeout=None, verify=context) as client:  # noqa: S113  # the whole try has one
            answer = await client.send(request, stream=True)
            await answer.aclose()
    except httpx.ConnectError as error:
        raise NotSent(_explain_failure(error)) from error
    except (httpx.HTTPError, ValueError) as error:
        raise NotSent(str(error) or BROKEN) from error
    return answer


@cache
def _open_context(authorities: ssl.DefaultVerifyPaths) -> ssl.SSLContext:  # noqa: ARG001  # where it reads them
    """Returns what checks servers by the public authorities and by this machine's, which take 50 ms of CPU to read."""
    import httpx

    context = httpx.create_ssl_context(trust_env=False)
    context.load_default_certs()
    return context


def _explain_failure(error: BaseException) -> str:
    """Returns the system's reason why a connection failed, instead of `All connection attempts failed`. Errors of TLS
    have words of their own."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno and not isinstance(cause, ssl.SSLError):
            return f"its host cannot be reached: {os.strerror(cause.errno)}"
        cause = cause.__cause__ or cause.__context__
    return str(error) or type(error).__name__
