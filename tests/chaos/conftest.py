"""The deployments of the chaos tests.

`deployment`: one per module, its processes are started and killed one by one; light queues are manned before each test,
leftovers killed after it. `supervised`: one for all tests, its processes come back by themselves.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness.faults.deployment import FaultDeployment
from tests.harness.faults.supervised_deployment import SupervisedDeployment


@pytest.fixture(scope="module")
def shared_deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultDeployment]:
    with FaultDeployment(tmp_path_factory.mktemp("chaos")) as made:
        yield made


@pytest.fixture
def deployment(shared_deployment: FaultDeployment) -> Iterator[FaultDeployment]:
    with shared_deployment.for_a_test() as ready:
        yield ready


@pytest.fixture(scope="package")
def shared_supervised(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SupervisedDeployment]:
    with SupervisedDeployment(tmp_path_factory.mktemp("supervised")) as made:
        yield made


@pytest.fixture
def supervised(shared_supervised: SupervisedDeployment) -> Iterator[SupervisedDeployment]:
    with shared_supervised.for_a_test() as ready:
        yield ready
