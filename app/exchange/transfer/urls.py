"""https:// — from addresses that the operator allows, never from a private network, also not by a redirect."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urljoin, urlsplit

import anyio
import httpx

from app.exchange.errors import REACH_HINT, SourceRefused, TransferFailed
from app.exchange.model import Source
from app.exchange.transfer.protocol import CHUNK_BYTES, Access, Fetched, Progress
from app.inference.sources.allow_list import SourceNotOffered, resolve_source
from app.kit.network.addresses import read_networks
from app.kit.network.public_hosts import AddressRefused, check_url, pin_host

REDIRECTS_MAX = 5
TIMEOUT_S = 60.0
AS_IT_IS = {"Accept-Encoding": "identity"}
"""Unpacking on the way could make the content a thousand times as large."""


def fetch(source: Source, folder: Path, access: Access, progress: Progress) -> Fetched:
    """Fetch a file over HTTPS, by redirects that are allowed, too.

    Args:
        folder: takes the file, by the last part of the URL's path.
        access: which addresses and networks are allowed.
        progress: hears of each chunk; raises when they are too many bytes.

    Raises:
        SourceRefused: The operator does not allow the address.
        SourceTooLarge: Before or while it is fetched.
        TransferFailed: The server refuses, redirects too often, or does not answer.
    """
    try:
        resolve_source(source.text, access.urls)
    except SourceNotOffered:
        raise SourceRefused(
            f"This installation does not fetch models from {urlsplit(source.text).hostname}.",
            hint="The operator can allow addresses with MODELMILL_SOURCE_URLS. Or download the model and upload it.",
        ) from None
    target = folder / (Path(urlsplit(source.text).path).name or "model.onnx")
    url = source.text
    for _ in range(REDIRECTS_MAX + 1):
        following = _get(url, target, access, progress)
        if following is None:
            return Fetched(target)
        url = following
    raise TransferFailed(f"{source.text} redirects more than {REDIRECTS_MAX} times.")


def _get(url: str, target: Path, access: Access, progress: Progress) -> str | None:
    """Saves the file, or returns the URL of a redirect."""
    address, headers, extensions = _check_url(url, access)
    try:
        with (
            httpx.Client(timeout=TIMEOUT_S, trust_env=False) as http,
            http.stream("GET", address, headers={**headers, **AS_IT_IS}, extensions=extensions) as answer,
        ):
            if answer.is_redirect:
                return urljoin(url, str(answer.headers.get("location", "")))
            if answer.status_code != httpx.codes.OK:
                raise TransferFailed(f"{url} answered with {answer.status_code}.", hint="Is the address right?")
            length = answer.headers.get("content-length", "")
            progress.expect(int(length) if length.isdigit() else None)
            with target.open("wb") as file:
                for chunk in answer.iter_raw(CHUNK_BYTES):
                    progress.add(len(chunk))
                    file.write(chunk)
    except httpx.HTTPError as error:
        raise TransferFailed(f"{url} could not be fetched: {error or type(error).__name__}", hint=REACH_HINT) from error
    return None


def _check_url(url: str, access: Access) -> tuple[str, dict[str, str], dict[str, str]]:
    networks = read_networks(access.networks)
    if urlsplit(url).scheme != "https":
        raise SourceRefused(f"{url[:200]} is not fetched: only https is.", hint="Its server should redirect to https.")
    try:
        return anyio.run(pin_host, check_url(url, networks), networks)
    except AddressRefused as error:
        raise SourceRefused(
            f"{urlsplit(url).hostname} is an address of a private network, and models are not fetched from there.",
            hint="The operator can allow networks with MODELMILL_SOURCE_NETWORKS.",
        ) from error
    except (OSError, UnicodeError) as error:
        raise TransferFailed(f"{urlsplit(url).hostname} is not found: {error}", hint=REACH_HINT) from error
