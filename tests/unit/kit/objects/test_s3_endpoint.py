"""How the endpoint of an S3 server may be written."""

from __future__ import annotations

import pytest

from app.kit.objects.s3_connection import split_endpoint


@pytest.mark.parametrize(
    ("endpoint", "secure", "parts"),
    [
        ("minio:9000", False, ("minio:9000", False)),
        ("minio:9000", True, ("minio:9000", True)),
        ("http://minio:9000/", True, ("minio:9000", False)),
        ("https://s3.example.org", False, ("s3.example.org", True)),
    ],
)
def test_a_scheme_decides_about_tls(endpoint: str, secure: bool, parts: tuple[str, bool]) -> None:
    assert split_endpoint(endpoint, secure=secure) == parts


@pytest.mark.parametrize(
    ("endpoint", "words"),
    [
        ("", "an S3 endpoint is host:port"),
        ("ftp://minio:9000", "an S3 endpoint is host:port"),
        ("http://minio:9000/bucket", "an S3 endpoint is host:port"),
        ("minio:9000?x=1", "an S3 endpoint is host:port"),
        ("http://key:secret@minio:9000", "holds no credentials"),
    ],
)
def test_what_is_no_endpoint_is_refused_without_its_secret(endpoint: str, words: str) -> None:
    with pytest.raises(ValueError, match=words) as refused:
        split_endpoint(endpoint, secure=False)
    assert "secret@" not in str(refused.value)
