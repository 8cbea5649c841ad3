"""Each capability declares itself once, and the web, the commands, the workers and the metrics take it from there."""

from __future__ import annotations

import ast
from typing import Any

import pytest
import typer

from app.bootstrap.capabilities import CAPABILITIES
from app.bootstrap.container import Container
from app.kit.web.common_pages import NAVIGATION as KIT_NAVIGATION
from app.kit.web.languages import CHINESE, translations
from app.kit.web.navigation import Area, in_order
from app.main import collect_declarations, collectors, create_app
from app.settings import Settings
from tests.harness.paths import REPOSITORY

SHARED = {"results"}
"""Have no endpoints of their own: theirs stand below the paths of what makes them."""


def test_every_package_with_an_api_is_a_capability_of_the_list() -> None:
    packages = {path.parent.name for path in (REPOSITORY / "app").glob("*/api.py")}
    declared = {path.parent.name for path in (REPOSITORY / "app").glob("*/capability.py")} - {"kit"}
    assert packages | SHARED == declared == {capability.name.replace(" ", "_") for capability in CAPABILITIES}


def test_every_module_that_declares_actors_is_named_by_one_capability() -> None:
    declaring = {
        f"actors.{path.stem}"
        for path in (REPOSITORY / "actors").glob("*.py")
        if any(
            isinstance(node, ast.Call) and ast.unparse(node.func) == "actor"
            for node in ast.walk(ast.parse(path.read_text("utf-8")))
        )
    }
    assert sorted(declaring) == sorted(module for capability in CAPABILITIES for module in capability.actors)


def test_every_endpoint_of_a_capability_is_a_route_of_the_web(settings: Settings) -> None:
    app = create_app(settings)
    paths = [route.path for route in app.routes]  # type: ignore[attr-defined]
    for capability in CAPABILITIES:
        part = capability.web()
        assert (part.operations and part.pages) or capability.name in SHARED
        described: list[Any] = [*part.operations, *part.pages, *part.routes]
        assert {one.path for one in described} <= set(paths), capability.name
    app.state.container.close()


def test_the_commands_are_those_of_the_capabilities() -> None:
    root = typer.Typer()
    for capability in CAPABILITIES:
        capability.commands(root)
    assert [group.name for group in root.registered_groups] == [
        "jobs",
        "archive",
        "train",
        "joint",
        "video",
        "models",
        "nodes",
        "notifications",
        "sweeps",
    ]


def test_each_collector_is_made_of_the_container(container: Container) -> None:
    made = [type(collector).__name__ for collector in collectors(container, viewers=lambda: 0)]
    assert sorted(made) == ["ConversionCollector", "JointCollector", "SinkCollector", "VideoCollector"]  # no cluster


def test_each_table_is_of_one_capability() -> None:
    named = [module for capability in CAPABILITIES for module in capability.tables]
    modules = [
        ".".join(path.relative_to(REPOSITORY).with_suffix("").parts)
        for path in (REPOSITORY / "app").rglob("*.py")
        if "sa.Table(" in path.read_text("utf-8")
    ]
    assert sorted(named) == sorted(modules)


def test_the_entries_of_the_menu_have_places_of_their_own_and_lead_to_pages() -> None:
    entries = [*(entry for capability in CAPABILITIES for entry in capability.navigation), *KIT_NAVIGATION]
    assert len({(entry.area, entry.position) for entry in entries}) == len(entries)
    assert len({entry.url for entry in entries}) == len(entries)
    pages = {route.path for _, _, routes in [collect_declarations()] for route in routes}  # type: ignore[attr-defined]
    assert {entry.url for entry in entries} <= pages


def test_every_text_of_the_menu_is_translated() -> None:
    entries = [*(entry for capability in CAPABILITIES for entry in capability.navigation), *KIT_NAVIGATION]
    texts = {*(entry.label for entry in entries), *(area.value for area in Area)}
    assert {text for text in texts if translations(CHINESE).gettext(text) == text} == set()


@pytest.mark.parametrize(
    ("features", "is_admin", "places"),
    [
        (frozenset({"training"}), False, ["/ui/tasks", "/ui/tasks/new", "/ui/cluster"]),
        (frozenset(), True, ["/ui/tasks"]),
        (frozenset(), False, []),
    ],
)
def test_training_stands_in_the_menu_where_there_is_a_cluster(
    features: frozenset[str], is_admin: bool, places: list[str]
) -> None:
    entries = [entry for capability in CAPABILITIES for entry in capability.navigation]
    shown = [entry for entry in in_order(entries) if entry.condition(features, is_admin)]
    assert [entry.url for entry in shown if entry.area is Area.TRAINING] == places
    assert ("/ui/admin/users" in {entry.url for entry in shown}) is is_admin
