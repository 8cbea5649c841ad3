"""Envelopes: the specification's own bytes, and each way in which one does not hold."""

from __future__ import annotations

import base64
import json

import pytest

from app.kit.signatures import dsse
from app.kit.signatures.keys import NoKey, PublicKey, SigningKey

KEY, OTHER = SigningKey("secret", "tests"), SigningKey("another secret", "tests")
TYPE = "http://example.com/HelloWorld"
EC_PEM = """-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEoOGLJQICKFMpVXOB7LeC/1vO8bA2
uR4YVgnKh6kTvIYyKAuFEzyfcJm7Dm/HlErAmcd2KmVRXd3xSNqWdWfGyA==
-----END PUBLIC KEY-----
"""


def test_what_is_signed_is_the_pre_authentication_encoding_of_the_specification() -> None:
    envelope = dsse.sign(b"hello world", TYPE, KEY)
    (signature,) = envelope.signatures
    assert KEY.public.verifies(signature.value, b"DSSEv1 29 http://example.com/HelloWorld 11 hello world")
    assert signature.key_id == KEY.public.key_id


def test_it_comes_back_as_it_was_and_says_whose_it_is() -> None:
    envelope = dsse.from_bytes(dsse.sign(b"\x00\xff", TYPE, KEY).to_bytes())
    assert (envelope.payload, envelope.payload_type) == (b"\x00\xff", TYPE)
    assert envelope.is_signed_by([OTHER.public, KEY.public])
    assert not envelope.is_signed_by([OTHER.public])
    assert not envelope.is_signed_by([])


@pytest.mark.parametrize("part", ["payload", "payloadType"])
def test_a_change_of_what_is_signed_breaks_the_signature(part: str) -> None:
    document = json.loads(dsse.sign(b"hello", TYPE, KEY).to_bytes())
    document[part] = base64.b64encode(b"hallo").decode() if part == "payload" else "text/plain"
    assert not dsse.from_bytes(json.dumps(document).encode()).is_signed_by([KEY.public])


def test_the_url_safe_alphabet_is_read_too() -> None:
    document = json.loads(dsse.sign(b"\xfb\xff\xfe", TYPE, KEY).to_bytes())
    document["payload"] = document["payload"].replace("+", "-").replace("/", "_")
    assert dsse.from_bytes(json.dumps(document).encode()).is_signed_by([KEY.public])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"\xff",
        b'{"payload": "AA==", "payloadType": "x"}',
        b'{"payload": "no base64", "payloadType": "x", "signatures": []}',
        b'{"payload": 5, "payloadType": "x", "signatures": []}',
        b"[" * 100_000,
    ],
)
def test_what_is_none_is_refused(data: bytes) -> None:
    with pytest.raises(dsse.NoEnvelope):
        dsse.from_bytes(data)


def test_a_key_follows_from_the_secret_and_from_what_it_is_for() -> None:
    assert SigningKey("secret", "tests").public == KEY.public
    assert len({KEY.public.key_id, OTHER.public.key_id, SigningKey("secret", "else").public.key_id}) == 3


@pytest.mark.parametrize("text", ["", "no key", EC_PEM])
def test_another_kind_of_key_is_refused(text: str) -> None:
    with pytest.raises(NoKey):
        PublicKey(text)
