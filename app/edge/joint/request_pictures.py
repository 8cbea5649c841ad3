"""Pictures in requests to the workers' servers, and how large a part of a request may be."""

from __future__ import annotations

from collections.abc import Mapping

from app.edge.errors import BadPicture
from app.edge.worker_server import HINT
from app.inference.errors import DamagedPicture
from app.inference.picture_codec import decode
from app.inference.prediction import Picture
from app.kit.errors import BadRequest
from app.kit.web.multipart import Part

MAX_PICTURE_BYTES = 16 << 20
MAX_TEXT_BYTES = 64 << 10


def picture_of(parts: Mapping[str, Part]) -> Picture:
    """Returns the decoded part `picture`.

    Raises:
        BadRequest: The part is missing.
        BadPicture: It cannot be decoded.
    """
    if "picture" not in parts:
        raise BadRequest("The part picture is missing.", hint=HINT)
    try:
        return decode(parts["picture"].data)
    except DamagedPicture as error:
        raise BadPicture(error.message, hint=error.hint) from None


def shape_of(picture: Picture) -> list[int]:
    """Returns height, width and channels, as requests tell them."""
    height, width, *rest = picture.shape
    return [height, width, rest[0] if rest else 1]
