"""Tasks on two real Ray clusters by name, of which one stops answering."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.harness.ray_cluster import RayCluster, running_cluster
from tests.harness.training.deployment import Trainer
from tests.harness.until import until


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


@pytest.mark.exhaustive
def test_a_token_that_was_changed_is_said_and_the_new_one_is_read_without_a_restart(
    tmp_path: Path, ray_cluster: RayCluster
) -> None:
    """A head was replaced at its addresses, with another token: jobs of the old one are lost, and no task is."""
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    (secrets / "west-token").write_text("1" * 64)
    go = tmp_path / "go"
    until_go = f"import pathlib, time\nwhile not pathlib.Path({str(go)!r}).exists():\n    time.sleep(0.1)\n"
    with running_cluster(((1, 2),), token="1" * 64) as west:
        further = {"address": west.address, "gcs_address": west.gcs_address, "python": sys.executable}
        clusters = json.dumps({"west": {**further, "token": "west-token"}})
        trainer = Trainer(tmp_path, ray_cluster, ray_clusters=clusters, training_secrets=str(secrets))
        try:
            trainer.start()
            running = trainer.run(trainer.add_program("long", until_go), cluster="west", cpus=1)
            trainer.reaches(running, "RUNNING")
            dashboard = f"/ui/tasks/{running}/ray/1/api/jobs/"
            assert trainer.http.get(dashboard).status_code == 200
            west.restart(token="2" * 64)
            seen = lambda: trainer.http.get("/api/v2/cluster").json()["further"][0]  # noqa: E731
            until(seen, lambda cluster: "does not accept our token" in cluster["problem"])
            assert "does not accept our token" in trainer.http.get("/ui/cluster").text
            assert trainer.http.get(dashboard).status_code == 503
            waiting = trainer.run(trainer.add_program("short", "print('done')\n"), cluster="west", cpus=1)
            trainer.when(waiting, lambda task: task["waiting"] and task["waiting"]["code"] == "RAY")
            assert trainer.task(running)["state"] == "RUNNING"
            (secrets / "west-token").write_text("2" * 64)
            trainer.reaches(waiting, "SUCCEEDED")
            go.touch()
            task = trainer.reaches(running, "SUCCEEDED")
            assert [attempt["failure_kind"] for attempt in task["attempts"]] == ["LOST", None]
        finally:
            trainer.close()
