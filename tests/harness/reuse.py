"""What is the same for every test of a process and takes long to make is made once."""

from __future__ import annotations

import os
import ssl
from typing import Any

import httpx._transports.default as transports

_create = transports.create_ssl_context
_contexts: list[ssl.SSLContext] = []
OTHER_AUTHORITIES = ("SSL_CERT_FILE", "SSL_CERT_DIR")


def share_authorities() -> None:
    """httpx reads the list of certificate authorities for each client, also for `httpx.get`: 30 ms of CPU."""
    transports.create_ssl_context = _context  # type: ignore[attr-defined]


def describe_once() -> None:
    """The description of the API is made for each application, of the same operations: 60 ms of CPU."""
    from app import main

    make, made = main.document, dict[tuple[int, ...], dict[str, Any]]()

    def described(operations: list[Any], **about: str) -> dict[str, Any]:
        key = tuple(map(id, operations))  # constants of the capabilities' modules
        if key not in made:
            made[key] = make(operations, **about)
        return made[key]

    main.document = described


def _context(verify: Any = True, cert: Any = None, trust_env: bool = True) -> ssl.SSLContext:
    if verify is not True or cert is not None or (trust_env and any(map(os.environ.get, OTHER_AUTHORITIES))):
        return _create(verify=verify, cert=cert, trust_env=trust_env)
    if not _contexts:
        _contexts.append(_create(verify=True, cert=None, trust_env=False))
    return _contexts[0]
