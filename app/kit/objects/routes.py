"""Signed links of a store that has no HTTP server of its own: PUT and GET /objects/{key}."""

from __future__ import annotations

import time

from starlette.requests import Request
from starlette.responses import Response

from app.kit.errors import TooLarge
from app.kit.handover import hand_over
from app.kit.http import stream_bytes
from app.kit.objects.base import ObjectStore
from app.kit.objects.signing import verify


async def put_object(request: Request) -> Response:
    key = _verified_key(request, "PUT")
    store: ObjectStore = request.app.state.objects
    limit = max(request.app.state.settings.max_model_bytes, request.app.state.settings.max_images_bytes)
    try:
        stored = await hand_over(request.stream(), lambda chunks: store.put(key, chunks, max_bytes=limit))
    except TooLarge as error:
        raise TooLarge(error.message, hint="Send a smaller file; the operator can raise the limit.") from None
    return Response(status_code=200, headers={"ETag": f'"{stored.sha256}"'})


def get_object(request: Request) -> Response:
    key = _verified_key(request, "GET")
    store: ObjectStore = request.app.state.objects
    info = store.info(key)
    name = request.query_params.get("name") or key.rpartition("/")[2]
    return stream_bytes(
        request, lambda start, end: store.read(key, start=start, end=end), size=info.size_bytes, etag=info.etag,
        name=name, media_type=info.content_type,
    )  # fmt: skip


def _verified_key(request: Request, method: str) -> str:
    key, given = str(request.path_params["key"]), request.query_params
    secret = request.app.state.settings.secret_key.get_secret_value()
    verify(
        secret, method, key, given.get("expires", ""), given.get("signature", ""), time.time(),
        download_name=given.get("name", ""),
    )  # fmt: skip
    return key
