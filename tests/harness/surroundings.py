"""What of the shell that begins the tests, and of the machine, must not decide how they end."""

from __future__ import annotations

import os
import signal

from httpx._config import DEFAULT_TIMEOUT_CONFIG
from hypothesis import HealthCheck, settings

from tests.harness.until import PATIENCE_S

MARK = "KTC_MARK"
"""A variable that the sandbox passes on: processes are told by its value, in whatever session they are."""
PROXIES = frozenset({"http_proxy", "https_proxy", "all_proxy", "no_proxy"})
SERVICE = frozenset({"modelmill_url", "modelmill_token"})
"""Which service the commands talk to."""


def forget_surroundings() -> None:
    """Proxies and the service of the commands, for whatever a test asks is on this machine; and that Ctrl-C is ignored.

    A shell without job control makes what it begins in the background ignore it, and that is passed on to all that is
    started from here.
    """
    for name in [name for name in os.environ if name.lower() in PROXIES | SERVICE]:
        del os.environ[name]
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def take_any_time() -> None:
    """How long an example of Hypothesis takes, or comes to be, says something of the machine alone; so does how long a
    server takes to answer a client of a test that names no limit of its own."""
    for limit in ("connect", "read", "write", "pool"):
        setattr(DEFAULT_TIMEOUT_CONFIG, limit, PATIENCE_S)
    any_time = settings(settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.register_profile("any time", any_time)
    settings.load_profile("any time")
