"""How a local Ray is started, without a Ray."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from ops import ray_local
from ops.ray_run import Cluster, RunFolder
from tests.harness.ports import free_ports


@pytest.mark.parametrize("failures", [1, 2])
def test_a_ray_that_ends_while_it_starts_is_started_once_more(
    failures: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts: list[Path] = []

    def start_nodes(_: RunFolder, cluster: Cluster, __: argparse.Namespace) -> Cluster:
        attempts.append(Path(cluster.temporary))
        if len(attempts) <= failures:
            raise ray_local.RayEnded("Ray ended while its worker was starting.")
        return cluster

    monkeypatch.setattr(ray_local, "_start_nodes", start_nodes)
    monkeypatch.setattr(ray_local, "show", lambda _: None)
    port, gcs_port = map(str, free_ports(2))
    chosen = ray_local._parser().parse_args(["start", "--port", port, "--gcs-port", gcs_port])
    folder = RunFolder(tmp_path)
    with folder.locked():
        if failures == 2:
            with pytest.raises(ray_local.RayEnded):
                ray_local.start(folder, chosen)
        else:
            assert ray_local.start(folder, chosen) == 0
            attempts[-1].rmdir()
    assert len(attempts) == 2 and not any(path.exists() for path in attempts)
