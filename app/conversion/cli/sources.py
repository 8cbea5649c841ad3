"""Models in other places that the service fetches, as named on the command line."""

from __future__ import annotations

import re
import time
from pathlib import Path

from app.conversion.cli.progress import ProgressDisplay
from app.conversion.client import ConversionClient
from app.kit.errors import BadInput

LOOK_AGAIN_S = 0.5
SOURCE = re.compile(r"[a-z][a-z0-9+.-]*://|models:/")
"""The beginning of a source that is not a file; the service decides which of these it fetches."""
REGISTERED = re.compile(r"models:/([^/@]+)")


class FetchFailed(BadInput, code="FETCH_FAILED"):
    """The service could not get the model from where it lies."""


def is_source(model: str) -> bool:
    """Is it no path of a file?"""
    return SOURCE.match(model) is not None


def stem_of(model: str) -> str:
    """The last word of a path or a source, without its ending and version."""
    if not is_source(model):
        return Path(model).stem
    if registered := REGISTERED.match(model):
        return registered[1]
    return Path(re.split(r"[/:]", model.partition("?")[0].rstrip("/"))[-1]).stem


def fetch_key(client: ConversionClient, source: str, display: ProgressDisplay) -> str:
    """The key of a model that the service has fetched.

    Raises:
        FetchFailed: It could not.
    """
    transfer = client.fetch_model(source)
    while transfer["state"] not in ("COMPLETED", "FAILED"):
        time.sleep(LOOK_AGAIN_S)
        transfer = client.transfer(transfer["transfer_id"])
        if transfer["total_bytes"]:
            display.sent(transfer["done_bytes"], transfer["total_bytes"])
    if transfer["error"]:
        raise FetchFailed(transfer["error"]["message"], hint=transfer["error"]["hint"])
    return str(transfer["model_key"])
