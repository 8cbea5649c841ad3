"""Tests are collected without the garbage collector, which took nearly half of that time: what they import stays.

Afterwards it is left out of what is looked over. A plugin of pytest.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
