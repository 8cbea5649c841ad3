"""Who loads Ray, which takes seconds: the process that schedules and no other; and what is said where there is none."""

from __future__ import annotations

import subprocess
import sys

import pytest

from app.kit.cli.command import CannotStart
from app.training.gateway.ray_gateway import RayGateway, RayOptions
from tests.harness.paths import REPOSITORY


def test_the_web_does_not_load_ray():
    program = "import sys, app.main, app.bootstrap.training; sys.exit('ray' in sys.modules or 'grpc' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY, check=False).returncode == 0


@pytest.mark.parametrize("absent", ["grpc", "ray", "ray.job_submission"])
def test_without_ray_the_gateway_says_how_to_install_it(monkeypatch, absent):
    for loaded in [name for name in sys.modules if name.startswith(f"{absent}.")]:  # by other tests
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, absent, None)
    with pytest.raises(CannotStart) as caught:
        RayGateway(RayOptions("http://127.0.0.1:1", "127.0.0.1:1"))
    assert "pip install 'modelmill[train]'" in caught.value.hint
