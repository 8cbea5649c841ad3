"""Options with a change applied."""

from __future__ import annotations

from typing import Any

import pytest

from app.conversion.options import HostQuantization, Options
from app.conversion.service.reconversion import patch_options


def test_a_change_is_merged_into_the_options_that_were_chosen() -> None:
    options = Options(quantization=HostQuantization(percentile=99.9, exclude_nodes=("a",)))
    options_after = patch_options(options, {"quantization": {"method": "percentile", "exclude_nodes": ["b"]}})
    assert options_after is not None
    assert (options_after.quantization.method, options_after.quantization.percentile) == ("percentile", 99.9)
    assert options_after.quantization.exclude_nodes == ("b",)


def test_null_takes_an_option_back_to_its_default() -> None:
    options = Options(quantization=HostQuantization(method="entropy"))
    options_after = patch_options(options, {"quantization": {"method": None}})
    assert options_after is not None and options_after.quantization.method == "best"


@pytest.mark.parametrize("patch", [{"no_such_option": 1}, {"quantization": {"percentile": 3}}, {"quantization": 5}])
def test_a_change_that_does_not_fit_is_refused(patch: dict[str, Any]) -> None:
    assert patch_options(Options(), patch) is None
