"""How long connections without requests stay open."""

from __future__ import annotations

KEEP_ALIVE_S = 75
"""Of our servers: longer than common clients and proxies keep one (httpx 5 s, nginx and load balancers 60 s). A server
that closes first may do so just when the next request is on its way, which is then lost: the client sees a connection
that ends without an answer."""
