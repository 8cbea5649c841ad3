"""What endpoints find by their typed accessors is there, and of that type; nobody else reads an application's state."""

from __future__ import annotations

import importlib
import pkgutil
import re
from types import SimpleNamespace
from typing import get_args

import pytest
from starlette.applications import Starlette
from starlette.requests import Request

import app as product
from app.bootstrap.container import Container
from app.kit.web.state import AppState, FromContainer
from app.main import create_app
from app.settings import Settings
from tests.harness.paths import REPOSITORY


def accessors(kind: type) -> dict[str, object]:
    """Every accessor of this kind in modules that are named for what requests need, by module and name."""
    names = [name for _, name, _ in pkgutil.walk_packages(product.__path__, "app.") if name.endswith(".access")]
    modules = [importlib.import_module(name) for name in [*names, "app.settings", "app.kit.web.state"]]
    return {
        f"{module.__name__}.{name}": value
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, kind)
    }


def test_the_container_has_what_is_asked_of_it_in_that_type(container: Container) -> None:
    by_name = accessors(FromContainer)
    assert len(by_name) >= 10
    request = request_to(SimpleNamespace(container=container))
    for name, accessor in by_name.items():
        (kind,) = get_args(getattr(accessor, "__orig_class__", FromContainer[object]))
        value = accessor(request)  # type: ignore[operator]
        assert getattr(kind, "_is_protocol", False) or isinstance(value, kind), name


def test_what_is_made_when_it_is_first_asked_for_is_made_once() -> None:
    lists_of = AppState[list[int]]("numbers", list)
    app = Starlette()
    request = Request({"type": "http", "app": app})
    lists_of(request).append(1)
    assert lists_of(request) == lists_of.held(app) == [1]


def test_what_nobody_has_put_there_is_a_fault() -> None:
    with pytest.raises(AttributeError):
        AppState[int]("number")(Request({"type": "http", "app": Starlette()}))


@pytest.mark.slow
def test_an_application_has_a_container_and_what_is_the_webs_own(settings: Settings) -> None:
    app = create_app(settings)
    assert set(app.state._state) == {
        "collectors",
        "container",
        "error_forms",
        "features",
        "hub",
        "kept_answers",
        "navigation",
        "openapi",
        "upload_limits",
    }
    app.state.container.close()


@pytest.mark.slow
def test_only_one_module_reads_the_state_of_an_application() -> None:
    readers = {
        str(path.relative_to(REPOSITORY))
        for path in (REPOSITORY / "app").rglob("*.py")
        if re.search(r"\bapp\.state\b", path.read_text("utf-8"))
    }
    assert readers == {"app/kit/web/state.py"}


def request_to(state: SimpleNamespace) -> Request:
    return Request({"type": "http", "app": SimpleNamespace(state=state)})
