"""The page Data: where the home is, how to get at it by SFTP, how much is in it, and what goes when."""

from __future__ import annotations

import base64
import binascii
import hashlib
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.accounts.access import accounts_of
from app.accounts.model import Token
from app.homes.access import Home, home_of
from app.homes.home_paths import HomePath
from app.homes.model import CODE, COMMON, DATASETS, JOBS, MODELS, TMP, TRASH
from app.homes.pages.urls import DATA, url_of
from app.kit.errors import ModelmillError
from app.kit.web.templates import TemplateContext, render

FOLDERS = (DATASETS, MODELS, CODE, JOBS, TRASH, TMP)
JOBS_SHOWN = 100


@dataclass(frozen=True)
class Folder:
    name: str
    path: str
    url: str
    size_bytes: int | None
    """None while it cannot be measured."""


@dataclass(frozen=True)
class PublicKey:
    text: str
    """The whole key, as it is stored."""
    kind: str
    comment: str
    fingerprint: str
    token: Token | None
    """With which it ends; None: it holds until it is removed."""


def overview(request: Request, error: ModelmillError | None = None, part: str = "") -> Response:
    """error: why the form of this part of the page was refused."""
    home = home_of(request)
    return render(
        request,
        "homes/data.html",
        area="data",
        error=error,
        part=part,
        note=request.query_params.get("note", ""),
        **_build_sftp(request, home),
        **_build_folders(home),
        **_build_retention(home),
    )


def _build_sftp(request: Request, home: Home) -> TemplateContext:
    if not home.homes.sftp.is_on:
        return {"sftp": None, "keys": [], "password_token": None, "command": ""}
    facts = home.sftp()
    tokens = {token.token_id: token for token in accounts_of(request).tokens.of(home.user)}
    return {
        "sftp": facts,
        "keys": [_describe_key(text, tokens.get(facts.key_tokens.get(text, ""))) for text in facts.keys or ()],
        "password_token": tokens.get(facts.password_token or ""),
        "command": f"sftp -P {facts.endpoint.port} {facts.endpoint.username}@{facts.endpoint.host}",
    }


def _build_folders(home: Home) -> TemplateContext:
    usage = None
    with suppress(ModelmillError):
        usage = home.usage()
    folders = [
        Folder(name, home.logical(name), url_of(HomePath(name)), usage.folders.get(name, 0) if usage else None)
        for name in FOLDERS
    ]
    common = Folder(COMMON, f"{home.options.prefix}/{COMMON}", url_of(HomePath("", is_common=True)), None)
    quota = home.quota
    share = min(100, round(100 * usage.total_bytes / quota.size_bytes)) if usage and quota.size_bytes else 0
    return {"home": home.logical(""), "folders": folders, "common": common, "usage": usage, "share": share}


def _build_retention(home: Home) -> TemplateContext:
    retention = home.options.retention
    times = home.homes.folders.times(home.user)
    times.sort(key=lambda times: (times.ended_at is None, times.purge_at or times.trash_at or times.ended_at))
    return {
        "trash_days": _to_days(retention.trash_after),
        "purge_days": _to_days(retention.purge_after),
        "jobs": [(folder, url_of(home.locate(folder.path))) for folder in times[:JOBS_SHOWN]],
        "more_jobs": max(0, len(times) - JOBS_SHOWN),
    }


def _to_days(span: timedelta) -> int | float:
    days = span / timedelta(days=1)
    return int(days) if days == int(days) else round(days, 2)


def _describe_key(text: str, token: Token | None) -> PublicKey:
    kind, encoded, *comment = [*text.split(None, 2), "", ""][:3]
    try:
        digest = hashlib.sha256(base64.b64decode(encoded, validate=True)).digest()
    except binascii.Error:
        return PublicKey(text, kind, " ".join(comment), "", token)
    return PublicKey(text, kind, " ".join(comment), f"SHA256:{base64.b64encode(digest).decode().rstrip('=')}", token)


ROUTES = [Route(DATA, overview)]
