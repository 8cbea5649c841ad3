"""The secret that a caller shows: `Authorization: Bearer …`, RFC 6750."""

from __future__ import annotations

import hmac

from starlette.datastructures import Headers


def bearer_of(headers: Headers) -> str:
    """Returns the secret of the single Authorization header; empty for another scheme and for several headers."""
    values = headers.getlist("authorization")
    scheme, _, secret = values[0].partition(" ") if len(values) == 1 else ("", "", "")
    return secret if scheme.lower() == "bearer" else ""


def has_bearer(headers: Headers, secret: str) -> bool:
    """Whether this secret is shown, compared in a time that does not depend on it. Nobody shows an empty one."""
    return bool(secret) and hmac.compare_digest(bearer_of(headers).encode(), secret.encode())
