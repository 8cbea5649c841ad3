"""What GET /metrics says, as the Prometheus client's own parser reads it."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from app.bootstrap.container import Container
from app.kit.observability.metrics_page import exposition
from app.main import collectors

SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum"), "gauge": ("",)}


class Figures:
    def __init__(self, text: str) -> None:
        self.families: dict[str, Metric] = {}
        for family in text_string_to_metric_families(text):
            assert family.name not in self.families, f"{family.name} stands twice"
            self.families[family.name] = family

    def value(self, name: str, **labels: str) -> float:
        """Sum of the samples of this name that have these labels; 0 without any."""
        return sum(
            sample.value
            for family in self.families.values()
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    def series(self) -> Iterator[str]:
        """Names that a query may use, also those of which there is no sample yet."""
        for family in self.families.values():
            yield from (family.name + suffix for suffix in SUFFIXES[family.type])


def of_container(container: Container) -> Figures:
    return Figures(exposition(collectors(container, viewers=lambda: 0)).decode())
