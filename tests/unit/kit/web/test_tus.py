"""The headers of tus 1.0, as they come."""

from __future__ import annotations

import base64
import hashlib
from datetime import UTC, datetime

import pytest
from starlette.requests import Request

from app.kit.errors import BadRequest
from app.kit.web import tus


def request_with(**headers: str) -> Request:
    raw = [(name.replace("_", "-").lower().encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "headers": raw})


def b64(text: str | bytes) -> str:
    return base64.b64encode(text.encode() if isinstance(text, str) else text).decode()


def test_only_this_version_is_spoken() -> None:
    tus.check_version(request_with(Tus_Resumable="1.0.0"))
    for headers in ({}, {"Tus_Resumable": "0.2.2"}):
        with pytest.raises(tus.WrongVersion, match=r"1\.0\.0"):
            tus.check_version(request_with(**headers))


@pytest.mark.parametrize("text", ["", "-1", "1.5", "١", "1" * 16, "0x1"])
def test_a_length_that_is_no_number_of_bytes_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="Upload-Length"):
        tus.length_of(request_with(Upload_Length=text))


def test_the_body_of_a_part_has_one_type() -> None:
    assert tus.offset_of(request_with(Content_Type="application/offset+octet-stream", Upload_Offset="12")) == 12
    with pytest.raises(tus.WrongBodyType):
        tus.offset_of(request_with(Content_Type="application/octet-stream", Upload_Offset="12"))


def test_metadata_are_words_with_texts_in_base64() -> None:
    header = f"filename {b64('圖片.zip')}, field {b64('images')},is_flag"
    expected = {"filename": "圖片.zip", "field": "images", "is_flag": ""}
    assert tus.metadata_of(request_with(Upload_Metadata=header)) == expected
    assert tus.metadata_of(request_with()) == {}


@pytest.mark.parametrize("header", ["a !!", "a /w==", "a YQ==,a YQ==", "\x7f YQ==", "a " + "A" * 5000])
def test_metadata_that_are_none_are_refused(header: str) -> None:
    with pytest.raises(BadRequest, match="Upload-Metadata"):
        tus.metadata_of(request_with(Upload_Metadata=header))


def test_a_checksum_is_checked_against_what_came() -> None:
    digest = hashlib.sha1(b"hello", usedforsecurity=False).digest()
    checksum = tus.checksum_of(request_with(Upload_Checksum=f"sha1 {b64(digest)}"))
    assert checksum is not None
    hashed = checksum.new()
    hashed.update(b"hello")
    checksum.check(hashed)
    hashed.update(b"!")
    with pytest.raises(tus.WrongChecksum):
        checksum.check(hashed)
    assert tus.checksum_of(request_with()) is None


@pytest.mark.parametrize("header", ["crc32 AAAA", "sha1", "sha1 !!", f"sha256 {b64(b'short')}"])
def test_a_checksum_that_cannot_be_checked_is_refused(header: str) -> None:
    with pytest.raises(BadRequest, match="sha1, sha256"):
        tus.checksum_of(request_with(Upload_Checksum=header))


def test_answers_say_how_an_upload_stands() -> None:
    answer = tus.headers(offset=5, length=9, expires=datetime(2026, 11, 24, 1, 2, 3, tzinfo=UTC))
    assert answer["Upload-Offset"] == "5" and answer["Upload-Length"] == "9"
    assert answer["Upload-Expires"] == "Tue, 24 Nov 2026 01:02:03 GMT"
    assert answer["Tus-Resumable"] == tus.describe_capabilities(10)["Tus-Version"] == "1.0.0"
