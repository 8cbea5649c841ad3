"""A POST to an address that a user gave, and what its answer means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from app.kit.network.checked_post import NotSent, http_post
from app.kit.network.networks import Network
from app.notifications.model import PATIENCE_S, Outcome

if TYPE_CHECKING:
    import httpx

GONE = 410


async def send_json(url: str, body: bytes, headers: Mapping[str, str], networks: Sequence[Network]) -> Outcome:
    """POST a JSON document once; see checked_post.

    Args:
        networks: private ones that may be reached.

    Returns:
        How it went; nothing is raised for what cannot be sent.
    """
    try:
        answer = await http_post(url, body, headers, networks)
    except NotSent as error:
        return Outcome(False, problem=str(error))
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
