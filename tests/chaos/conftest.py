"""The stands of the chaos tests.

`stand`: one per module, its processes are started and killed one by one; light queues are manned before each test,
leftovers killed after it. `supervised`: one for all tests, its processes come back by themselves.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.chaos.stand import FaultStand
from tests.chaos.supervised import SupervisedStand


@pytest.fixture(scope="module")
def shared_stand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultStand]:
    with FaultStand(tmp_path_factory.mktemp("chaos")) as made:
        yield made


@pytest.fixture
def stand(shared_stand: FaultStand) -> Iterator[FaultStand]:
    with shared_stand.for_a_test() as ready:
        yield ready


@pytest.fixture(scope="package")
def shared_supervised(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SupervisedStand]:
    with SupervisedStand(tmp_path_factory.mktemp("supervised")) as made:
        yield made


@pytest.fixture
def supervised(shared_supervised: SupervisedStand) -> Iterator[SupervisedStand]:
    with shared_supervised.for_a_test() as ready:
        yield ready
