"""Is this server about to end? What waits long asks, for a server that ends waits for what it is answering."""

from __future__ import annotations

import signal
from typing import Any


def is_ending() -> bool:
    """True once uvicorn was told to end: it is known by the handler that it has set for SIGTERM."""
    server: Any = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
    return bool(getattr(server, "should_exit", False))
