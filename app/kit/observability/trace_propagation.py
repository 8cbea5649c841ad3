"""Carries a trace in the messages of the queues: whoever sends one is continued by whoever works on it."""

from __future__ import annotations

from typing import Any

import dramatiq

from app.kit.observability import tracing

OPTION = "trace"


class TraceMessages(dramatiq.Middleware):
    """Stands in the broker of every process that sends, when traces are on."""

    def before_enqueue(self, broker: Any, message: dramatiq.Message[Any], delay: int | None) -> None:
        message.options[OPTION] = tracing.carrier()


def carrier_of(message: Any) -> tracing.Carrier:
    """What the sender put in; empty when it does not trace."""
    option = message.options.get(OPTION)
    return option if isinstance(option, dict) else {}
