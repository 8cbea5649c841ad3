"""Tasks on two real Ray clusters by name, of which one stops answering."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.harness.api import until
from tests.harness.ray_cluster import RayCluster, running_cluster
from tests.harness.training.deployment import Trainer


@pytest.mark.exhaustive
def test_each_task_runs_on_its_cluster_and_one_that_stalls_holds_up_no_other(
    tmp_path: Path, ray_cluster: RayCluster
) -> None:
    with running_cluster(((1, 2),)) as west:
        further = {"address": west.address, "gcs_address": west.gcs_address, "python": sys.executable}
        trainer = Trainer(tmp_path, ray_cluster, ray_name="lab", ray_clusters=json.dumps({"west": further}))
        try:
            trainer.start()
            code = trainer.add_program("one", "print('done')\n")
            there, here = trainer.run(code, cluster="west", cpus=1), trainer.run(code, cpus=1)
            for task_id in (there, here):
                trainer.reaches(task_id, "SUCCEEDED")
            assert trainer.task(there)["cluster"] == "west" and trainer.logs(there)[-1] == "done"
            assert trainer.http.get("/api/v2/cluster").json()["further"][0]["nodes"]
            with west.stalled_head():
                waiting = trainer.run(code, cluster="west", cpus=1)
                seen = lambda: trainer.http.get("/api/v2/cluster").json()["further"][0]  # noqa: E731
                until(seen, lambda cluster: cluster["unreachable_since"] is not None)
                trainer.reaches(trainer.run(code, cluster="any", cpus=1), "SUCCEEDED")
                trainer.reaches(trainer.run(code, cpus=1), "SUCCEEDED")
                assert trainer.task(waiting)["waiting"]["code"] == "RAY"
            trainer.reaches(waiting, "SUCCEEDED")
        finally:
            trainer.close()
