"""httpx reads the list of certificate authorities for each client that is made, which takes 30 ms of CPU, also for
`httpx.get("http://127.0.0.1…")`. The clients of one test process share what was read."""

from __future__ import annotations

import os
import ssl
from typing import Any

import httpx._transports.default as transports

_create = transports.create_ssl_context
_shared: list[ssl.SSLContext] = []
OTHERS = ("SSL_CERT_FILE", "SSL_CERT_DIR")


def share_authorities() -> None:
    transports.create_ssl_context = _context  # type: ignore[attr-defined]


def _context(verify: Any = True, cert: Any = None, trust_env: bool = True) -> ssl.SSLContext:
    if verify is not True or cert is not None or (trust_env and any(map(os.environ.get, OTHERS))):
        return _create(verify=verify, cert=cert, trust_env=trust_env)
    if not _shared:
        _shared.append(_create(verify=True, cert=None, trust_env=False))
    return _shared[0]
