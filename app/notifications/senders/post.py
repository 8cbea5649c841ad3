"""A POST to an address that a user gave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING

from app.kit.network.networks import Network
from app.kit.network.public_hosts import AddressRefused, pinned
from app.notifications.model import PATIENCE_S, Outcome

if TYPE_CHECKING:
    import httpx

GONE, TOO_MANY = 410, 429


async def send_json(url: str, body: bytes, headers: Mapping[str, str], networks: Sequence[Network]) -> Outcome:
    """One try. Its answer's body is not read: nothing in it concerns us, and it may have no end.

    Args:
        url: Where to.
        body: JSON.
        headers: Besides the usual ones.
        networks: Private networks that may be reached.
    """
    import httpx  # not before something is sent: it brings much along

    try:
        target, host, extensions = await pinned(url, networks)
    except AddressRefused as error:
        return Outcome(False, problem=error.message)
    except (OSError, UnicodeError) as error:
        return Outcome(False, problem=f"its host cannot be resolved: {error}")
    usual = {"Content-Type": "application/json", "User-Agent": f"modelmill/{version('modelmill')}"}
    request = httpx.Request("POST", target, content=body, headers={**usual, **headers, **host}, extensions=extensions)
    try:
        async with httpx.AsyncClient(trust_env=False, follow_redirects=False, timeout=None) as client:  # noqa: S113  # the whole try has one
            answer = await client.send(request, stream=True)
            await answer.aclose()
    except (httpx.HTTPError, ValueError) as error:
        return Outcome(False, problem=str(error) or type(error).__name__)
    return outcome_of(answer)


def outcome_of(answer: httpx.Response) -> Outcome:
    """What an answer means."""
    status = answer.status_code
    if answer.is_success:
        return Outcome(True, status)
    if answer.has_redirect_location:
        return Outcome(False, status, "it redirects, and redirects are not followed: give the address it leads to")
    if status == GONE:
        return Outcome(False, status, "it answered 410: it wants nothing more", is_final=True, is_gone=True)
    return Outcome(False, status, f"it answered {status}", retry_after_s=_retry_after_s(answer))


def _retry_after_s(answer: httpx.Response) -> float:
    text = answer.headers.get("retry-after", "")
    return min(float(text), PATIENCE_S) if text.isascii() and text.isdigit() and len(text) < 10 else 0.0
