"""Each capability declares itself once, and the web, the commands, the workers and the metrics take it from there."""

from __future__ import annotations

import ast
from typing import Any

import typer

from app.bootstrap.capabilities import CAPABILITIES
from app.bootstrap.container import Container
from app.main import collectors, create_app
from app.settings import Settings
from tests.harness.paths import REPOSITORY


def test_every_package_with_an_api_is_a_capability_of_the_list() -> None:
    packages = {path.parent.name for path in (REPOSITORY / "app").glob("*/api.py")}
    declared = {path.parent.name for path in (REPOSITORY / "app").glob("*/capability.py")} - {"kit"}
    assert packages == declared == {capability.name.replace(" ", "_") for capability in CAPABILITIES}


def test_every_module_that_declares_actors_is_named_by_one_capability() -> None:
    declaring = {
        path.stem
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
        assert part.operations and part.pages
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
    assert made == ["ConversionCollector", "JointCollector", "VideoCollector"]  # there is no cluster to train on
