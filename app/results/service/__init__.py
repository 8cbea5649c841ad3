"""The operations on results: rows are searched; rules turn them into events; sinks are configured and delivered to."""

from __future__ import annotations

from dataclasses import dataclass

from app.results.service.results import ResultPage, Results
from app.results.service.rules import ProducerRules, RuleEventPage, Rules
from app.results.service.sinks import Sinks


@dataclass(frozen=True)
class ResultServices:
    rows: Results
    rules: Rules
    sinks: Sinks
