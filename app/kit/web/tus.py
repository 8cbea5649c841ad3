"""tus 1.0, the protocol for resumable uploads: reads and writes its headers. Other modules handle the content.

https://tus.io/protocols/resumable-upload: core, creation, termination, expiration, checksum.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from email.utils import format_datetime
from typing import Any

from starlette.requests import Request

from app.kit.errors import BadRequest, Conflict, ModelmillError

VERSION = "1.0.0"
EXTENSIONS = "creation,termination,expiration,checksum"
BODY_TYPE = "application/offset+octet-stream"
CHECKSUMS: dict[str, Callable[[], Any]] = {
    "sha1": lambda: hashlib.sha1(usedforsecurity=False),
    "sha256": hashlib.sha256,
}
MAX_METADATA_BYTES = 4096
MAX_DIGITS = 15
HINT = "This address speaks tus 1.0: https://tus.io/protocols/resumable-upload."
_KEY = re.compile(r"[!-+\--~]{1,100}")  # printable ASCII without space and comma


class WrongVersion(ModelmillError, status=412, code="TUS_VERSION"):
    """Another version of the protocol, or none."""


class WrongOffset(Conflict, code="UPLOAD_OFFSET"):
    """The upload's offset is not where its sender assumes."""


class WrongBodyType(ModelmillError, status=415, code="UPLOAD_BODY_TYPE"):
    """The Content-Type of a continued upload must be the one of tus."""


class WrongChecksum(ModelmillError, status=460, code="UPLOAD_CHECKSUM", can_retry=True):
    """The bytes differ from those sent: none of them is kept."""


@dataclass(frozen=True)
class Checksum:
    """The expected digest of a request's body."""

    name: str
    """Of CHECKSUMS."""
    digest: bytes

    def new(self) -> Any:
        return CHECKSUMS[self.name]()

    def check(self, hashed: Any) -> None:
        """Compares a digest.

        Raises:
            WrongChecksum: It is another one.
        """
        if not hmac.compare_digest(hashed.digest(), self.digest):
            raise WrongChecksum("The bytes differ from their checksum; none of them is kept.", hint="Send them again.")


def check_version(request: Request) -> None:
    """Checks the header of a request.

    Raises:
        WrongVersion: It is missing, or names another version.
    """
    if request.headers.get("tus-resumable") != VERSION:
        raise WrongVersion("The header Tus-Resumable: 1.0.0 is missing, or names another version.", hint=HINT)


def offset_of(request: Request) -> int:
    """Returns the offset of a PATCH body, in bytes.

    Raises:
        BadRequest: It is missing, or no number.
        WrongBodyType: The body has another type.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != BODY_TYPE:
        raise WrongBodyType(f"The body that continues an upload has the type {BODY_TYPE}.", hint=HINT)
    return _read_number(request, "Upload-Offset")


def length_of(request: Request) -> int:
    """Returns the size of the whole upload, in bytes.

    Raises:
        BadRequest: It is missing, or no number.
    """
    return _read_number(request, "Upload-Length")


def metadata_of(request: Request) -> dict[str, str]:
    """Parses Upload-Metadata: keys with base64 values.

    Raises:
        BadRequest: It is too long, malformed, or has a key twice.
    """
    header = request.headers.get("upload-metadata", "")
    if len(header) > MAX_METADATA_BYTES:
        raise BadRequest(f"Upload-Metadata has more than {MAX_METADATA_BYTES} bytes.", hint="Shorten the file's name.")
    metadata: dict[str, str] = {}
    for pair in filter(None, (part.strip() for part in header.split(","))):
        key, _, value = pair.partition(" ")
        try:
            text = base64.b64decode(value, validate=True).decode()
        except (binascii.Error, ValueError):
            raise BadRequest(f"The value of {key!r} in Upload-Metadata is no base64 of UTF-8.", hint=HINT) from None
        if not _KEY.fullmatch(key) or key in metadata:
            raise BadRequest(f"{key!r} in Upload-Metadata is no key, or comes twice.", hint=HINT)
        metadata[key] = text
    return metadata


def checksum_of(request: Request) -> Checksum | None:
    """Parses Upload-Checksum, if present.

    Raises:
        BadRequest: The algorithm is unknown, or the digest does not fit it.
    """
    header = request.headers.get("upload-checksum")
    if header is None:
        return None
    name, _, value = header.partition(" ")
    try:
        digest = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        digest = b""
    if name not in CHECKSUMS or len(digest) != CHECKSUMS[name]().digest_size:
        raise BadRequest(f"Upload-Checksum is one of {', '.join(CHECKSUMS)} and the digest in base64.", hint=HINT)
    return Checksum(name, digest)


def headers(*, offset: int | None = None, length: int | None = None, expires: datetime | None = None) -> dict[str, str]:
    """Returns the protocol's response headers.

    Args:
        offset: Bytes stored so far.
        length: Bytes of the whole upload.
        expires: When it is deleted unless it is continued (aware, UTC).
    """
    answer = {"Tus-Resumable": VERSION, "Cache-Control": "no-store"}
    if offset is not None:
        answer["Upload-Offset"] = str(offset)
    if length is not None:
        answer["Upload-Length"] = str(length)
    if expires is not None:
        answer["Upload-Expires"] = format_datetime(expires, usegmt=True)
    return answer


def describe_capabilities(max_bytes: int) -> dict[str, str]:
    """Returns the server's capabilities for OPTIONS.

    Args:
        max_bytes: the maximum size of an upload.
    """
    return {
        **headers(),
        "Tus-Version": VERSION,
        "Tus-Extension": EXTENSIONS,
        "Tus-Max-Size": str(max_bytes),
        "Tus-Checksum-Algorithm": ",".join(CHECKSUMS),
    }


def _read_number(request: Request, name: str) -> int:
    text = request.headers.get(name, "")
    if not (text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS):
        raise BadRequest(f"The header {name} is missing or is no number of bytes.", hint=HINT)
    return int(text)
