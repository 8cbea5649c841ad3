"""Tests are collected without the garbage collector, which took nearly half of that time: what they import stays.

Afterwards that is left out of what is looked over, and the collector runs seldom, for each test leaves little. A
plugin of pytest.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

SELDOM = (20_000, 20, 20)
"""New objects until the youngest are looked over, and how many of such times until the older ones are."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(*SELDOM)
        gc.enable()
