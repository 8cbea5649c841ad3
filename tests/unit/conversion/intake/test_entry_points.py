"""The functions that the web names are there, and take and return what it is told they do."""

from __future__ import annotations

from importlib import import_module
from typing import get_args, get_type_hints

import pytest

from app.bootstrap import conversion as bootstrap
from app.conversion.intake import entry_points
from app.conversion.intake.entry_points import EntryPoint
from app.exchange import service as exchange
from app.exchange.pack import service as pack
from app.model_registry import imports

MODULES = (entry_points, bootstrap, exchange, pack, imports)
DECLARED = {
    str(each): get_args(each.__orig_class__)
    for module in MODULES
    for value in vars(module).values()
    for each in (value.values() if isinstance(value, dict) else [value])
    if isinstance(each, EntryPoint)
}


@pytest.mark.parametrize("name", DECLARED)
def test_an_entry_point_is_a_function_of_its_types(name: str) -> None:
    module, _, function = name.partition(":")
    hints = get_type_hints(getattr(import_module(module), function))
    request, result = DECLARED[name]
    assert (hints["request"], hints["return"]) == (request, result)
