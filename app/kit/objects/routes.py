"""Signed links for a store without its own HTTP server: PUT and GET /objects/{key}."""

from __future__ import annotations

import time

from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from app.kit.errors import TooLarge
from app.kit.objects.base import ObjectMissing, ObjectStore
from app.kit.objects.signed_urls import verify
from app.kit.web.conditions import IF_MATCH, TAGS, require_match
from app.kit.web.downloads import stream_bytes
from app.kit.web.operations import Operations
from app.kit.web.state import objects_of, web_settings_of
from app.kit.web.thread_stream import hand_over

_KEY, _ANY_TYPE = "/objects/{key:path}", "application/octet-stream"
_BYTES = {"required": True, "content": {_ANY_TYPE: {"schema": {"type": "string", "format": "binary"}}}}
OPERATIONS = Operations()


class Signed(BaseModel):
    """The query of a link; the service creates it."""

    expires: str = ""
    signature: str = ""
    method: str = ""
    name: str = ""


@OPERATIONS.put(
    _KEY,
    "Upload by a signed link",
    None,
    errors=(403, 404, 408, 412, 413, 422, 503, 507),
    query=Signed,
    body=_BYTES,
    sent_headers={IF_MATCH: TAGS},
    headers={"ETag": "SHA-256 of what was stored"},
    callers=(),
)
async def put_object(request: Request) -> Response:
    key = _verify_key(request, "PUT")
    store: ObjectStore = objects_of(request)
    if IF_MATCH in request.headers:
        require_match(request, await run_in_threadpool(_etag, store, key))
    limit = max(web_settings_of(request).max_model_bytes, web_settings_of(request).max_images_bytes)
    try:
        stored = await hand_over(request.stream(), lambda chunks: store.put(key, chunks, max_bytes=limit))
    except TooLarge as error:
        raise TooLarge(error.message, hint="Send a smaller file; the operator can raise the limit.") from None
    return Response(status_code=200, headers={"ETag": f'"{stored.sha256}"'})


@OPERATIONS.get(
    _KEY,
    "Download by a signed link; Range is honored",
    {200: (_ANY_TYPE,), 206: (_ANY_TYPE,), 304: None},
    more_errors=(403, 404, 416),
    query=Signed,
    callers=(),
)
def get_object(request: Request) -> Response:
    key = _verify_key(request, "GET")
    store: ObjectStore = objects_of(request)
    info = store.info(key)
    name = request.query_params.get("name") or key.rpartition("/")[2]
    return stream_bytes(
        request,
        lambda start, end: store.read(key, start=start, end=end),
        size=info.size_bytes,
        etag=info.etag,
        name=name,
        media_type=info.content_type,
    )


def _etag(store: ObjectStore, key: str) -> str | None:
    try:
        return store.info(key).etag
    except ObjectMissing:
        return None


def _verify_key(request: Request, method: str) -> str:
    key, given = str(request.path_params["key"]), request.query_params
    secret = web_settings_of(request).secret_key.get_secret_value()
    verify(
        secret,
        method,
        key,
        given.get("expires", ""),
        given.get("signature", ""),
        time.time(),
        download_name=given.get("name", ""),
    )
    return key
