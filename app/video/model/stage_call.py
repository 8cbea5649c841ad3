"""A call of a stage on the network: POST /service/<name>.

JSON {"image": base64, "bbox": …, "model_id": 0, …}, or multipart: a part `fields` of JSON and one part for each
picture, named as its field (a clip: as many parts of its name). Content types of pictures: image/jpeg, image/png,
application/x-rgb;width=W;height=H (raw, for a host on the same machine), video/h264;seq=N (a packet of the job's
stream: one picture; N rises by one with each packet, so that a lost one is noticed).

What a runner adds: the query `want=a,b` (outputs to answer, default all), the header X-Job, and X-Frame, under which
the host keeps the frame's pictures for a while, so that the call of the next stage names them instead of sending them
again: the part is then empty and of the type application/x-kept. A host that no longer has the picture returns 409
PICTURE_NOT_KEPT, one that cannot decode a packet 409 KEYFRAME_NEEDED.
"""

from __future__ import annotations

import base64
import binascii
import json
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from multipart import MultipartSegment

from app.kit.errors import BadRequest, Conflict, TooLarge
from app.kit.text.json_values import JsonObject
from app.kit.text.untrusted_json import UnreadableJson, read_json, read_object
from app.kit.web.multipart import MultipartReader, boundary_of
from app.video.model.plan import MODEL_IDS

JPEG, PNG, RAW, H264, KEPT = "image/jpeg", "image/png", "application/x-rgb", "video/h264", "application/x-kept"
X_JOB, X_FRAME = "x-job", "x-frame"
MAX_BODY_BYTES = 64 << 20
MAX_PARTS = 256
MAX_NAME = 200
FIELDS = "fields"
PICTURE_FIELDS = ("image", "clip")
"""Fields of JSON bodies that are base64 rather than text."""
_JPEG_BEGIN, _PNG_BEGIN = b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n"
HINT = "Send multipart/form-data, as curl -F image=@file.jpg does, or JSON with the picture in base64."


class PictureNotKept(Conflict, code="PICTURE_NOT_KEPT"):
    """The host has no longer the picture to which a call refers: it has to be sent again."""


class KeyframeNeeded(Conflict, code="KEYFRAME_NEEDED"):
    """The host cannot decode this frame: the stream has to begin anew with a key frame."""


@dataclass(frozen=True)
class Encoded:
    """A picture as it is sent."""

    data: bytes
    content_type: str = JPEG
    """With its parameters."""


@dataclass(frozen=True)
class Call:
    """A call of a stage."""

    stage: str
    model_id: int = 0
    fields: Mapping[str, Any] = field(default_factory=dict)
    """All inputs that are not pictures, as in JSON."""
    pictures: Mapping[str, tuple[Encoded, ...]] = field(default_factory=dict)
    """field → one picture, or those of a clip."""
    job: str = ""
    """Empty: a user calls."""
    frame: str = ""
    """Identifies the frame whose pictures the host may have; empty: a user calls."""
    want: frozenset[str] = frozenset()
    """Requested outputs; empty: all."""


def pack_call(call: Call) -> tuple[bytes, dict[str, str], dict[str, str]]:
    """Body, headers and query of the request."""
    boundary = secrets.token_hex(16)
    fields = json.dumps({**call.fields, "model_id": call.model_id}, ensure_ascii=False).encode()
    body = b"".join([*_iterate_segments(call, fields, boundary), f"--{boundary}--\r\n".encode()])
    headers = {"content-type": f"multipart/form-data; boundary={boundary}"}
    headers |= {name: value for name, value in ((X_JOB, call.job), (X_FRAME, call.frame)) if value}
    return body, headers, {"want": ",".join(sorted(call.want))} if call.want else {}


def unpack_call(stage: str, body: bytes, headers: Mapping[str, str], query: Mapping[str, str]) -> Call:
    """Parses a request to a stage host.

    Args:
        stage: from the path.
        headers: in any letter case.
        query: `want` names outputs, with commas between.

    Raises:
        BadRequest: The body has another form, or a picture is not a JPEG or PNG in base64.
        TooLarge: The body has more than MAX_BODY_BYTES.
    """
    if len(body) > MAX_BODY_BYTES:
        raise TooLarge(f"A call may have {MAX_BODY_BYTES} bytes.")
    lower_case = {name.lower(): value for name, value in headers.items()}
    content_type = lower_case.get("content-type", "")
    fields, pictures = _of_multipart(body, content_type) if _is_multipart(content_type) else _of_json(body)
    model_id = fields.pop("model_id", 0)
    if isinstance(model_id, bool) or model_id not in MODEL_IDS:
        raise BadRequest(f"model_id is one of {', '.join(map(str, MODEL_IDS))}, not {str(model_id)[:80]!r}.")
    want = frozenset(word.strip() for word in query.get("want", "").split(",") if word.strip())
    job, frame = (lower_case.get(name, "")[:MAX_NAME] for name in (X_JOB, X_FRAME))
    return Call(stage, int(model_id), fields, pictures, job, frame, want)


def from_text(name: str, value: object) -> Encoded:
    """Reads a picture of a JSON body.

    Args:
        name: of the field, for the message.
        value: a JPEG or PNG in base64, or as a data URL.

    Raises:
        BadRequest: It is something else.
    """
    if not isinstance(value, str):
        raise BadRequest(f"The field {name} is to be a picture in base64, not {type(value).__name__}.", hint=HINT)
    text = value.partition(",")[2] if value.startswith("data:image/") else value
    try:
        data = base64.b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, ValueError):
        raise BadRequest(f"The field {name} is no base64.", hint=HINT) from None
    if data.startswith(_PNG_BEGIN):
        return Encoded(data, PNG)
    if not data.startswith(_JPEG_BEGIN):
        raise BadRequest(f"The field {name} holds neither a JPEG nor a PNG.", hint=HINT)
    return Encoded(data)


def _iterate_segments(call: Call, fields: bytes, boundary: str) -> Iterator[bytes]:
    yield _write_head(boundary, FIELDS, "application/json")
    yield fields
    yield b"\r\n"
    for name, pictures in call.pictures.items():
        for picture in pictures:
            yield _write_head(boundary, name, picture.content_type)
            yield picture.data
            yield b"\r\n"


def _write_head(boundary: str, name: str, content_type: str) -> bytes:
    return (
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"; filename="{name}"\r\n'
        f"Content-Type: {content_type}\r\n\r\n"
    ).encode()


def _is_multipart(content_type: str) -> bool:
    return content_type.lower().startswith("multipart/form-data")


Parsed = tuple[JsonObject, dict[str, tuple[Encoded, ...]]]


def _of_json(body: bytes) -> Parsed:
    fields = _require_object(body, "The body")
    pictures = {}
    for name in PICTURE_FIELDS:
        if name in fields:
            value = fields.pop(name)
            values = value if isinstance(value, list) else [value]
            pictures[name] = tuple(from_text(name, entry) for entry in values)
    return fields, pictures


def _of_multipart(body: bytes, content_type: str) -> Parsed:
    boundary = boundary_of(content_type)
    if not boundary:
        raise BadRequest("The multipart body names no boundary.", hint=HINT)
    fields: JsonObject = {}
    pictures: dict[str, tuple[Encoded, ...]] = {}
    for name, kind, data in _split_parts(body, boundary):
        if name == FIELDS:
            fields |= _require_object(data, "The part fields")
        elif not kind:
            fields[name] = _parse_value(data)
        else:
            pictures[name] = (*pictures.get(name, ()), Encoded(data, kind))
    return fields, pictures


def _split_parts(body: bytes, boundary: str) -> list[tuple[str, str, bytes]]:
    """Name, content type and bytes of each. Without a content type it is a value, not a file, as in curl -F
    model_id=1."""
    parts: list[tuple[str, str, bytearray]] = []
    reader = MultipartReader(boundary, hint=HINT, max_parts=MAX_PARTS)
    for piece in (*reader.feed(body), *reader.feed(b"")):
        if isinstance(piece, MultipartSegment):
            kind = piece.header("Content-Type") or (JPEG if piece.filename else "")
            parts.append((piece.name[:MAX_NAME], kind, bytearray()))
        else:
            parts[-1][2].extend(piece)
    return [(name, kind, bytes(data)) for name, kind, data in parts]


def _parse_value(data: bytes) -> Any:
    """Parses JSON, or returns the text itself."""
    text = data.decode("utf-8", "replace")
    try:
        return read_json(text)
    except UnreadableJson:
        return text


def _require_object(data: bytes, what: str) -> JsonObject:
    try:
        return read_object(data)
    except UnreadableJson:
        raise BadRequest(f"{what} is to be a JSON object.", hint=HINT) from None
