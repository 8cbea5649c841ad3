"""The deployments of the chaos tests.

`deployment`: its processes are started and killed one by one; light queues are manned before each test, leftovers are
killed after it. `supervised`: its processes come back by themselves. There is one of each for all who need no other.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness.faults.backend_deployment import BackendDeployment
from tests.harness.faults.supervised_deployment import SupervisedDeployment


@pytest.fixture(scope="package")
def shared_deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BackendDeployment]:
    with BackendDeployment(tmp_path_factory.mktemp("chaos")) as made:
        yield made


@pytest.fixture
def deployment(shared_deployment: BackendDeployment) -> Iterator[BackendDeployment]:
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
