"""Traces across processes with OpenTelemetry, if OTEL_* variables request them; otherwise nothing.

OpenTelemetry's own environment variables, which its SDK reads too, decide whether and where. Unless one of them names
an exporter, and the extra `otel` is installed, no part of OpenTelemetry is imported, and a span costs one call.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Tracer

ASKED_BY = ("OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
PREFIX = "modelmill."
FLUSH_MS = 5000
Carrier = Mapping[str, str]
"""The context that crosses a process boundary: {"traceparent": …}, W3C Trace Context; empty for none."""
_NOTHING: AbstractContextManager[None] = nullcontext()
_provider: TracerProvider | None = None
_tracer: Tracer | None = None
logger = logging.getLogger(__name__)


def is_enabled(environment: Mapping[str, str]) -> bool:
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    exporter = environment.get("OTEL_TRACES_EXPORTER", "")
    return exporter != "none" and any(environment.get(name) for name in ASKED_BY)


def configure(role: str) -> None:
    """Starts tracing this process, if it is configured.

    Args:
        role: web, worker, …; OTEL_SERVICE_NAME takes precedence.
    """
    global _provider, _tracer  # noqa: PLW0603  # a process traces or it does not, like its logging
    if _provider is not None or not is_enabled(os.environ):
        return
    try:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        logger.warning("OTEL_* asks for traces, but OpenTelemetry is missing: pip install 'modelmill[otel]'.")
        return
    name = os.environ.get("OTEL_SERVICE_NAME") or f"modelmill-{role}"
    _provider = TracerProvider(resource=Resource.create({"service.name": name}))
    _provider.add_span_processor(BatchSpanProcessor(_make_exporter()))
    _tracer = _provider.get_tracer("modelmill")


def is_on() -> bool:
    return _tracer is not None


def flush() -> None:
    """Exports the remaining spans. Dramatiq's workers end without Python's atexit."""
    if _provider is not None:
        _provider.force_flush(FLUSH_MS)


def span(name: str, **attributes: Any) -> AbstractContextManager[Any]:
    """Opens a span for the block; an exception that leaves the block marks it as failed."""
    if _tracer is None:
        return _NOTHING
    return _tracer.start_as_current_span(name, attributes=_prefix_names(attributes))


@contextmanager
def remote_span(name: str, carrier: Carrier, *, kind: str, **attributes: Any) -> Iterator[None]:
    """Like `span`, but continues the trace of another process; without one it starts its own.

    Args:
        name: the name of the span.
        carrier: the context that the other process sent.
        kind: SERVER, …
        attributes: attributes of the span.
    """
    if _tracer is None:
        yield
        return
    from opentelemetry.trace import SpanKind

    with _tracer.start_as_current_span(
        name, context=_context_of(carrier), kind=SpanKind[kind], attributes=_prefix_names(attributes)
    ):
        yield


def past_span(name: str, carrier: Carrier, begin_s: float, end_s: float, **attributes: Any) -> None:
    """Records a span that no process could measure, such as a time in a queue. Does nothing without tracing.

    Args:
        carrier: the trace that it belongs to, as a message carries it.
        begin_s: seconds since 1970.
        end_s: seconds since 1970.
        **attributes: attributes of the span.
    """
    if _tracer is None:
        return
    whole = _tracer.start_span(
        name, context=_context_of(carrier), start_time=int(begin_s * 1e9), attributes=_prefix_names(attributes)
    )
    whole.end(int(max(begin_s, end_s) * 1e9))


def note(name: str | None = None, **attributes: Any) -> None:
    """Adds to the current span.

    Args:
        name: its new name; None: unchanged.
        attributes: attributes to add.
    """
    if _tracer is None:
        return
    from opentelemetry.trace import get_current_span

    current = get_current_span()
    current.set_attributes(_prefix_names(attributes))
    if name is not None:
        current.update_name(name)


def carrier() -> dict[str, str]:
    """Returns the context of the open span, for another process to continue."""
    if _tracer is None:
        return {}
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    headers: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(headers)
    return headers


def trace_id() -> str | None:
    """Returns the id of the open span's trace, as in the logs."""
    if _tracer is None:
        return None
    from opentelemetry.trace import format_trace_id, get_current_span

    context = get_current_span().get_span_context()
    return format_trace_id(context.trace_id) if context.is_valid else None


def _context_of(carrier: Carrier) -> Any:
    from opentelemetry.context import Context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator().extract(carrier, context=Context())


def _prefix_names(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """job_id → modelmill.job_id; a name with a dot is already one of OpenTelemetry's conventions."""
    return {name if "." in name else PREFIX + name: value for name, value in attributes.items() if value is not None}


def _make_exporter() -> Any:
    if os.environ.get("OTEL_TRACES_EXPORTER") == "console":
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter

        return ConsoleSpanExporter()
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter()
