"""Signed URLs for a store without its own HTTP server: our web process accepts them.

Pure functions. A signature binds the method, the key, the expiry and the download name; only holders of the
installation's secret can create one. This module depends on neither the store nor the web.
"""

from __future__ import annotations

import hashlib
import hmac
from urllib.parse import quote, urlencode

from app.kit.errors import ModelmillError


class BadSignature(ModelmillError, status=403, code="BAD_SIGNATURE"): ...


class UrlExpired(ModelmillError, status=403, code="URL_EXPIRED"): ...


def sign(secret: str, method: str, key: str, expires: int, *, download_name: str = "") -> str:
    """Returns the signature of a request.

    Args:
        method: the HTTP method, in capitals.
        expires: seconds since 1970.
        download_name: the name of the saved file; empty: that of its key.

    Returns:
        Hex HMAC-SHA256 of all arguments.
    """
    # A key has no line breaks, so the fields cannot run into each other; the free text comes last.
    message = f"{method}\n{key}\n{expires}\n{download_name}".encode()
    return hmac.new(secret.encode(), message, hashlib.sha256).hexdigest()


def verify(
    secret: str, method: str, key: str, expires: int | str, signature: str, now: float, *, download_name: str = ""
) -> None:
    """Verifies a signed request.

    Args:
        expires: the text in the URL, so that an invalid number is a bad signature, too.
        now: seconds since 1970.

    Raises:
        BadSignature: The signature is not ours, or a part of the URL was changed.
        UrlExpired: The signature is ours, but has expired.
        ValueError: The secret is empty.
    """
    if not secret:
        raise ValueError("signing needs a secret")
    text = str(expires)
    if not (text.isascii() and text.isdigit() and len(text) <= 12):
        raise BadSignature("The expiry in this URL is not a time.", hint="Ask for a new URL.")
    try:
        expected = sign(secret, method, key, int(text), download_name=download_name).encode()
        given = signature.encode()
    except UnicodeEncodeError:
        raise BadSignature("The signature of this URL is not valid.", hint="Ask for a new URL.") from None
    if not hmac.compare_digest(expected, given):
        raise BadSignature("The signature of this URL is not valid.", hint="Ask for a new URL.")
    if now >= int(text):
        raise UrlExpired("This URL has expired.", hint="Ask for a new URL.")


def sign_url(
    public_url: str, secret: str, method: str, key: str, expires: int, *, download_name: str | None = None
) -> str:
    """`<public_url>/objects/<key>?method=…&expires=…&signature=…[&name=…]`.

    Args:
        public_url: the web server's URL for clients.
        expires: seconds since 1970.
        download_name: the name of the saved file; None or empty: that of its key.

    Raises:
        ValueError: The secret is empty.
    """
    if not secret:
        raise ValueError("signing needs a secret")
    name = download_name or ""
    signature = sign(secret, method, key, expires, download_name=name)
    query = {"method": method, "expires": str(expires), "signature": signature}
    if name:
        query["name"] = name
    return f"{public_url.rstrip('/')}/objects/{quote(key)}?{urlencode(query)}"
