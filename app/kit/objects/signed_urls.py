"""Signed URLs for a store without an HTTP server of its own: our web process honours them.

Pure functions. A signature binds the method, the key, the expiry and the download name; whoever holds the
secret of the installation can make one, nobody else. It must not know the store or the web.
"""

from __future__ import annotations

import hashlib
import hmac
from urllib.parse import quote, urlencode

from app.kit.errors import ModelmillError


class BadSignature(ModelmillError):
    status = 403
    code = "BAD_SIGNATURE"


class UrlExpired(ModelmillError):
    status = 403
    code = "URL_EXPIRED"


def sign(secret: str, method: str, key: str, expires: int, *, download_name: str = "") -> str:
    """The signature of a request.

    Args:
        method: of HTTP, in capitals.
        expires: seconds since 1970.
        download_name: what the file is called when it is saved; empty: its key says it.

    Returns:
        Hex HMAC-SHA256 over all of these.
    """
    # A key has no line breaks, so the fields cannot run into each other; the free text comes last.
    message = f"{method}\n{key}\n{expires}\n{download_name}".encode()
    return hmac.new(secret.encode(), message, hashlib.sha256).hexdigest()


def verify(
    secret: str,
    method: str,
    key: str,
    expires: int | str,
    signature: str,
    now: float,
    *,
    download_name: str = "",
) -> None:
    """Accept a signed request.

    Args:
        expires: as it stood in the URL, so that what is no number is a bad signature, too.
        now: seconds since 1970.

    Raises:
        BadSignature: It is not ours, or a part of the URL was changed.
        UrlExpired: It was ours.
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


def signed_url(
    public_url: str, secret: str, method: str, key: str, expires: int, *, download_name: str | None = None
) -> str:
    """`<public_url>/objects/<key>?method=…&expires=…&signature=…[&name=…]`.

    Args:
        public_url: the web's, as clients reach it.
        expires: seconds since 1970.
        download_name: what the file is called when it is saved; None or empty: its key says it.

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
