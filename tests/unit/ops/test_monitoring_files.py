"""What stands in the dashboard, the alert rules and the manual is what GET /metrics has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import yaml
from prometheus_client import Counter, Histogram
from pydantic import SecretStr

from app.bootstrap.accounts import MIGRATIONS
from app.bootstrap.container import assemble
from app.conversion import metrics as conversion
from app.kit.observability import metrics as kit
from app.kit.sql.migrations import upgrade
from app.settings import Settings
from app.training.metrics import counters as training
from app.training.model import Node
from app.training.service import ClusterView
from app.video.service import counters as video
from tests.harness.exposition import Figures, of_container
from tests.harness.paths import REPOSITORY
from tests.harness.valkey import Valkey

GRAFANA = REPOSITORY / "ops" / "grafana"
METRIC = re.compile(r"\b(?:modelmill|process|python)_\w+")
ROW = re.compile(r"^\| `(modelmill_\w+)` \| (\w+) \| ([^|]*)\|", re.MULTILINE)
SELECTED = re.compile(r"(modelmill_\w+)\{([^}]*)\}")
MATCHER = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")


@pytest.fixture(scope="module")
def figures(shared_valkey: Valkey, tmp_path_factory: pytest.TempPathFactory) -> Figures:
    """With training, and a cluster that the scheduler has seen."""
    shared_valkey.client.flushall()
    settings = Settings(
        data_dir=tmp_path_factory.mktemp("data"),
        redis_url=shared_valkey.url(0),
        node_name="here",
        secret_key=SecretStr("a secret"),
        ray_address="http://127.0.0.1:1",
    )
    container = assemble(settings)
    upgrade(container.database, MIGRATIONS)
    container.training.picture.put(ClusterView("2026-11-21T10:00:00.000Z", (Node("n", "10.0.0.1", 8, 8, 8, 8),)))
    try:
        return of_container(container)
    finally:
        container.close()


def queries() -> list[str]:
    return [*dashboard_queries(), *(rule["expr"] for rule in rules())]


def dashboard_queries() -> Iterator[str]:
    for panel in json.loads((GRAFANA / "modelmill.json").read_text())["panels"]:
        for target in panel["targets"]:
            yield target["expr"]


@cache
def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load((GRAFANA / "alerts.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


@cache
def manual() -> dict[str, tuple[str, set[str]]]:
    """Metric as a query names it → type, labels."""
    text = (REPOSITORY / "docs" / "observability.md").read_text()
    return {name: (kind, set(re.findall(r"`(\w+)`", labels))) for name, kind, labels in ROW.findall(text)}


@pytest.mark.slow
def test_every_metric_that_a_query_names_is_exported(figures: Figures) -> None:
    named = {query: set(METRIC.findall(query)) for query in queries()}
    assert named and all(named.values())
    exported = set(figures.series())
    assert not {query: unknown for query, names in named.items() if (unknown := names - exported)}


def test_a_query_selects_and_groups_by_labels_that_its_metrics_have() -> None:
    for query in queries():
        known = {"le", "instance", "job"}
        for name in METRIC.findall(query):
            known |= labels_of(name)
        for name, matchers in SELECTED.findall(query):
            assert set(MATCHER.findall(matchers)) <= labels_of(name), query
        grouped = {label.strip() for group in re.findall(r"by \(([^)]*)\)", query) for label in group.split(",")}
        assert grouped <= known, query


def labels_of(series: str) -> set[str]:
    bare = re.sub(r"_(bucket|count|sum)$", "", series)
    return manual()[bare][1] if bare in manual() else set()


@pytest.mark.slow
def test_the_manual_has_every_metric_with_its_type(figures: Figures) -> None:
    exported = {
        f"{family.name}_total" if family.type == "counter" else family.name: family.type
        for family in figures.families.values()
        if family.name.startswith("modelmill_")
    }
    assert {name: kind for name, (kind, _) in manual().items()} == exported


def test_the_labels_in_the_manual_are_those_of_the_samples(figures: Figures) -> None:
    seen = [(sample.name, set(sample.labels)) for family in figures.families.values() for sample in family.samples]
    ours = [(name, labels) for name, labels in seen if name.startswith("modelmill_")]
    assert ours
    for name, labels in ours:
        assert labels - {"le"} == labels_of(name)


def test_every_rule_has_a_name_of_its_own_and_says_what_is_wrong() -> None:
    alerts = {rule["alert"] for rule in rules()}
    assert len(alerts) == len(rules())
    for rule in rules():
        assert rule["annotations"]["summary"]
        assert rule["labels"]["severity"] in ("critical", "warning")


def test_what_is_counted_takes_the_labels_that_the_manual_has() -> None:
    counted = [
        value
        for module in (kit, conversion, training, video)
        for value in vars(module).values()
        if isinstance(value, Counter | Histogram)
    ]
    assert len(counted) > 10
    for metric in counted:
        name = metric.describe()[0].name
        labels = labels_of(name if isinstance(metric, Histogram) else f"{name}_total")
        if labels:
            metric.labels(**dict.fromkeys(labels, "any"))  # it refuses other names
        else:
            with pytest.raises(ValueError, match="label"):
                metric.labels(any="any")


def test_no_two_panels_lie_on_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in json.loads((GRAFANA / "modelmill.json").read_text())["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken
        assert place["x"] + place["w"] <= 24
        taken |= cells
