"""Dead Simple Signing Envelopes (DSSE 1.0): a payload with its type, and signatures over both."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable
from dataclasses import dataclass

from app.kit.signatures.keys import PublicKey, SigningKey
from app.kit.text.untrusted_json import read_json


class NoEnvelope(ValueError):
    """These bytes are not such an envelope."""


@dataclass(frozen=True)
class Signature:
    key_id: str
    value: bytes


@dataclass(frozen=True)
class Envelope:
    payload: bytes
    payload_type: str
    signatures: tuple[Signature, ...]

    def to_bytes(self) -> bytes:
        """As JSON."""
        document = {
            "payloadType": self.payload_type,
            "payload": base64.b64encode(self.payload).decode(),
            "signatures": [
                {"keyid": one.key_id, "sig": base64.b64encode(one.value).decode()} for one in self.signatures
            ],
        }
        return json.dumps(document, indent=1).encode()

    def is_signed_by(self, keys: Iterable[PublicKey]) -> bool:
        """Checks the signature with these keys, whatever key it names: that name is a hint, and not signed."""
        message = _to_sign(self.payload_type, self.payload)
        return any(key.verifies(one.value, message) for key in keys for one in self.signatures)


def sign(payload: bytes, payload_type: str, key: SigningKey) -> Envelope:
    signature = Signature(key.public.key_id, key.sign(_to_sign(payload_type, payload)))
    return Envelope(payload, payload_type, (signature,))


def from_bytes(data: bytes) -> Envelope:
    """Reads what `to_bytes` writes.

    Raises:
        NoEnvelope: It is something else.
    """
    try:
        document = read_json(data)
        signatures = tuple(Signature(str(one.get("keyid", "")), _decode(one["sig"])) for one in document["signatures"])
        return Envelope(_decode(document["payload"]), str(document["payloadType"]), signatures)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise NoEnvelope("it is no signed envelope (DSSE)") from error


def _to_sign(payload_type: str, payload: bytes) -> bytes:
    """The pre-authentication encoding."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def _decode(text: str) -> bytes:
    """Accepts either alphabet, as the specification requires of receivers."""
    try:
        return base64.b64decode(text.replace("-", "+").replace("_", "/"), validate=True)
    except binascii.Error as error:
        raise ValueError("no Base64") from error
