"""The operations on results: rows are searched; sinks are configured and delivered to."""

from __future__ import annotations

from dataclasses import dataclass

from app.results.service.results import ResultPage, Results
from app.results.service.sinks import Sinks, SinkState


@dataclass(frozen=True)
class ResultServices:
    rows: Results
    sinks: Sinks
