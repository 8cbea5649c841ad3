"""Sedna's Models in a file of services: each becomes a model of the registry, under its name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx

from app.joint_inference.errors import ModelUnfetched
from app.joint_inference.sedna import SednaModel, check_source, describe_use, make_unfetched
from app.kit.cli.api_client import ApiError
from app.kit.errors import NotFound
from app.kit.files import sha256_of
from app.kit.text.json_values import JsonObject
from app.kit.text.plain_text import reason_of
from app.model_registry.cli import bring_file
from app.model_registry.client import ModelsClient

TIMEOUT_S = 60.0


def apply_model(client: ModelsClient, model: SednaModel) -> tuple[str, str]:
    """Registers the file of a model; one that has changed becomes a new version.

    Returns:
        What was done, as kubectl says it, and why the file of a model that is registered was not used; or "".

    Raises:
        ModelUnfetched: There is no such model, and its file cannot be had.
        ApiError: The service refuses it.
    """
    present = _find_model(client, model.name)
    try:
        with _fetch(model) as file:
            if present and present["sha256"] == sha256_of(file):
                return "unchanged", ""
            bring = partial(client.bring, decoder="auto", labels=[], new_version=bool(present), note=model.url[:200])
            bring_file(bring, model.name, file)
    except ModelUnfetched as error:
        if not present:
            raise
        return "unchanged", describe_use(error, present["version"])
    return "configured" if present else "created", ""


def _find_model(client: ModelsClient, name: str) -> JsonObject | None:
    try:
        return client.model(name)
    except ApiError as error:
        if error.status != NotFound.status:
            raise
        return None


@contextmanager
def _fetch(model: SednaModel) -> Iterator[Path]:
    """The file of a model: of this machine, or downloaded."""
    url = check_source(model)
    if url.scheme in ("http", "https"):
        with TemporaryDirectory() as folder:
            yield _download(model, Path(folder) / (Path(url.path).name or "model.onnx"))
    else:
        file = Path(url.path)
        if not file.is_file():
            raise make_unfetched(model, f"is not on this machine: {file}")
        yield file


def _download(model: SednaModel, file: Path) -> Path:
    try:
        with httpx.stream("GET", model.url, timeout=TIMEOUT_S, follow_redirects=True) as answer, file.open("wb") as out:
            answer.raise_for_status()
            for chunk in answer.iter_bytes():
                out.write(chunk)
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        raise make_unfetched(model, f"cannot be fetched: {reason_of(error)}") from error
    return file
