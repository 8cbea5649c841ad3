"""Sources, targets and transfers as values. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import urlsplit

from app.exchange.errors import BadSource, BadTarget
from app.kit.text.json_form import JsonForm
from app.kit.text.json_values import JsonObject

FORMS = (
    "hf://org/model, hf://org/model:file.onnx, mlflow://run/RUN_ID/path, models:/name/version, s3://bucket/key or "
    "https://host/model.onnx"
)
TARGETS = "hf://org/model or mlflow://experiment/NAME"
REPOSITORY = re.compile(
    r"(?P<repo>[\w.-]{1,96}/[\w.-]{1,96})(?:@(?P<revision>[\w./-]{1,100}))?(?::(?P<file>[^:]{1,400}))?"
)
RUN = re.compile(r"run/(?P<run>[0-9A-Za-z_-]{1,64})/(?P<path>.{1,400})")
REGISTERED = re.compile(r"(?P<name>[^/@]{1,200})(?:/(?P<version>\d{1,9})|@(?P<alias>[\w-]{1,100}))")
BUCKET = re.compile(r"(?P<bucket>[a-z0-9][a-z0-9.-]{1,61}[a-z0-9])/(?P<key>.{1,1000})")
HOST = re.compile(r"[\w.:%-]+")
ENDINGS = (".onnx", ".zip", ".pt2", ".tflite")
"""Endings of files that can become a model here, directly or after a conversion."""


class Kind(StrEnum):
    HUB = "hf"
    RUN = "mlflow"
    REGISTERED = "models"
    S3 = "s3"
    URL = "https"


PATTERNS: dict[str, tuple[str, re.Pattern[str]]] = {
    Kind.HUB: ("//", REPOSITORY),
    Kind.RUN: ("//", RUN),
    Kind.REGISTERED: ("/", REGISTERED),
    Kind.S3: ("//", BUCKET),
}
"""By scheme: what follows its colon, and the pattern of the rest."""


@dataclass(frozen=True)
class Source:
    """The location of a model."""

    kind: Kind
    text: str
    parts: dict[str, str] = field(default_factory=dict)
    """Parts of the text by the names of its kind: repo, revision, file; run, path; name, version, alias; bucket, key;
    none for a URL."""

    @property
    def name(self) -> str:
        """A name for a job of this model."""
        last = self.parts.get("file") or self.parts.get("name") or self.parts.get("repo") or self.text
        return last.partition("?")[0].rstrip("/").rpartition("/")[2][:200]

    @property
    def origin(self) -> str:
        """The text as others may read it: a URL without its query, which may contain a signature or a key."""
        return re.split("[?#]", self.text, maxsplit=1)[0] if self.kind is Kind.URL else self.text


def read_source(text: str) -> Source:
    """Reads a source.

    Raises:
        BadSource: It is not one; the message says what sources look like.
    """
    text = text.strip()
    scheme, colon, rest = text.partition(":")
    if not colon or not text.isprintable() or ".." in rest.split("/"):
        raise _make_bad_source(text)
    if scheme == Kind.URL:
        return _parse_url(text)
    slashes, pattern = PATTERNS.get(scheme, ("//", None))
    match = pattern.fullmatch(rest.removeprefix(slashes)) if pattern and rest.startswith(slashes) else None
    if not match:
        raise _make_bad_source(text)
    return Source(Kind(scheme), text, {name: part for name, part in match.groupdict().items() if part})


def _parse_url(text: str) -> Source:
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError:  # a bracket that is not closed, or a port that is no number
        raise _make_bad_source(text) from None
    if not HOST.fullmatch(host or "") or parts.username is not None:
        raise _make_bad_source(text)
    return Source(Kind.URL, text)


def _make_bad_source(text: str) -> BadSource:
    return BadSource(f"{text[:200]!r} is not a source of models.", hint=f"Write {FORMS}.")


@dataclass(frozen=True)
class Target:
    """The destination of results: a repository of the hub, or an experiment of MLflow."""

    kind: Kind
    text: str
    name: str


def read_target(text: str) -> Target:
    """Reads a target.

    Raises:
        BadTarget: It is not one.
    """
    text = text.strip()
    hub = REPOSITORY.fullmatch(text.removeprefix("hf://")) if text.startswith("hf://") else None
    if hub and not hub["file"] and not hub["revision"]:
        return Target(Kind.HUB, text, hub["repo"])
    experiment = text.removeprefix("mlflow://experiment/") if text.startswith("mlflow://experiment/") else ""
    if experiment and experiment.isprintable() and len(experiment) <= 200:
        return Target(Kind.RUN, text, experiment)
    raise BadTarget(f"{text[:200]!r} is not a place that results can be pushed to.", hint=f"Write {TARGETS}.")


class TransferState(StrEnum):
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"


class Direction(StrEnum):
    IN = "in"
    OUT = "out"


@dataclass(frozen=True)
class Transfer:
    """The transfer of one model to this service, or of one job's results from it. Lost in a reset, like jobs."""

    transfer_id: str
    direction: Direction
    place: str
    """The source or the target, as the user wrote it."""
    owner: str
    created_at: str
    state: TransferState = TransferState.QUEUED
    message: str = ""
    """What it is doing now."""
    done_bytes: int = 0
    total_bytes: int | None = None
    job_id: str = ""
    """Of the pushed results."""
    registered_model: str = ""
    """Its name in MLflow's registry; empty if it is not registered."""
    model_key: str = ""
    """Key of the fetched model for POST /jobs."""
    name: str = ""
    """Name of the fetched file."""
    url: str = ""
    """Page of the pushed results."""
    error: JsonObject | None = None

    @property
    def is_over(self) -> bool:
        return self.state in (TransferState.COMPLETED, TransferState.FAILED)


TRANSFER = JsonForm(Transfer)
