"""Signed URLs bind method, key, expiry and name, and nothing gets by."""

from __future__ import annotations

import pytest

from app.kit.objects.signed_urls import BadSignature, UrlExpired, sign, sign_url, verify

SECRET = "a secret of the installation"


def test_what_was_signed_is_accepted_until_it_expires() -> None:
    signature = sign(SECRET, "PUT", "a/b", 1000)
    verify(SECRET, "PUT", "a/b", 1000, signature, 999.9)
    verify(SECRET, "PUT", "a/b", "1000", signature, 0)
    with pytest.raises(UrlExpired) as caught:
        verify(SECRET, "PUT", "a/b", 1000, signature, 1000)
    assert (caught.value.status, caught.value.code) == (403, "URL_EXPIRED")


@pytest.mark.parametrize(
    "changed",
    [
        {"secret": "another secret"},
        {"method": "GET"},
        {"key": "a/c"},
        {"key": "a/b\n"},
        {"key": "a/\ud800"},
        {"expires": 2000},
        {"expires": "01000"[::-1]},
        {"expires": ""},
        {"expires": "soon"},
        {"expires": "-1"},
        {"expires": "١٠٠٠"},
        {"expires": "9" * 5000},
        {"signature": ""},
        {"signature": "0" * 64},
        {"signature": "é"},
        {"signature": "\ud800"},
        {"download_name": "other.nef"},
    ],
)
def test_whatever_is_changed_breaks_it(changed: dict[str, object]) -> None:
    parts: dict[str, object] = {
        "secret": SECRET,
        "method": "PUT",
        "key": "a/b",
        "expires": 1000,
        "signature": sign(SECRET, "PUT", "a/b", 1000),
        "now": 0.0,
    }
    with pytest.raises(BadSignature) as caught:
        verify(**(parts | changed))  # type: ignore[arg-type]
    assert (caught.value.status, caught.value.code) == (403, "BAD_SIGNATURE")


def test_a_forged_url_does_not_learn_that_it_expired() -> None:
    with pytest.raises(BadSignature):
        verify(SECRET, "GET", "a", 1000, "0" * 64, 5000)


def test_without_a_secret_nothing_is_signed_or_accepted() -> None:
    with pytest.raises(ValueError, match="secret"):
        sign_url("http://mill", "", "GET", "a", 1000)
    with pytest.raises(ValueError, match="secret"):
        verify("", "GET", "a", 1000, sign("", "GET", "a", 1000), 0)
