"""Whether this server is about to end. Long waits check this, because a server that ends waits for its current
responses."""

from __future__ import annotations

import signal
from typing import Any


def is_ending() -> bool:
    """True once uvicorn was told to end: detected by the handler that it has set for SIGTERM."""
    server: Any = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
    return bool(getattr(server, "should_exit", False))
