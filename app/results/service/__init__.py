"""The verbs of results: rows looked through, sinks said and delivered to."""

from __future__ import annotations

from dataclasses import dataclass

from app.results.service.results import ResultPage, Results
from app.results.service.sinks import Sinks, SinkState


@dataclass(frozen=True)
class ResultServices:
    rows: Results
    sinks: Sinks
