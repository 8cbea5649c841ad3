"""Carries a trace in the messages of the queues: a worker's spans continue the sender's trace."""

from __future__ import annotations

from typing import Any

import dramatiq

from app.kit.observability import tracing

OPTION = "trace"


class TraceMessages(dramatiq.Middleware):
    """Middleware in the broker of every sending process while traces are on."""

    def before_enqueue(self, broker: Any, message: dramatiq.Message[Any], delay: int | None) -> None:
        message.options[OPTION] = tracing.carrier()


def carrier_of(message: Any) -> tracing.Carrier:
    """Returns what the sender stored; empty if it does not trace."""
    option = message.options.get(OPTION)
    return option if isinstance(option, dict) else {}
