"""What both workers' servers share beside app.kit.serving: pictures, and how large a part may be."""

from __future__ import annotations

from collections.abc import Mapping

from app.kit.errors import BadRequest
from app.kit.serving import HINT, Part
from app.vision.encoding import decode
from app.vision.errors import DamagedPicture
from app.vision.model import Picture

MAX_PICTURE_BYTES = 16 << 20
MAX_TEXT_BYTES = 64 << 10


def picture_of(parts: Mapping[str, Part]) -> Picture:
    """Raises BadRequest: a picture that is missing or damaged is its sender's fault."""
    if "picture" not in parts:
        raise BadRequest("The part picture is missing.", hint=HINT)
    try:
        return decode(parts["picture"].data)
    except DamagedPicture as error:
        raise BadPicture(error.message, hint=error.hint) from None


class BadPicture(BadRequest):
    code = "PICTURE_DAMAGED"
