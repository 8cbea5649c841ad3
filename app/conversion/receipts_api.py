"""The API of receipts: the key with which they are checked. The receipts themselves are artifacts of their jobs."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from app.conversion.access import conversion_of
from app.conversion.errors import NoReceipts
from app.kit.web.operations import Operations

MEDIA_TYPE = "application/x-pem-file"
OPERATIONS = Operations()


@OPERATIONS.get(
    "/receipts/key",
    "Get the Ed25519 public key that verifies receipts, as PEM",
    (MEDIA_TYPE,),
    errors=(404,),
    headers={"X-Key-Id": "what receipts name this key by"},
    callers=(),
)
def get_receipt_key(request: Request) -> Response:
    """Tells nothing of anybody, so it is open to all: whoever was handed a model can check its receipt."""
    key = conversion_of(request).receipts.public_key
    if key is None:
        raise NoReceipts(
            "This installation signs no receipts.",
            hint="The operator sets MODELMILL_SECRET_KEY, to the same for the web and the scheduler.",
        )
    return Response(key.pem, media_type=MEDIA_TYPE, headers={"X-Key-Id": key.key_id})
