"""The gateway without a cluster: who imports Ray, and how its answers are read."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from app.training.gateway import PlacementGroup, RayStatus, Submission, ray_translation
from app.training.model import Node
from app.training.model.node_use import NodeUse
from tests.harness.paths import REPOSITORY

GATEWAY = REPOSITORY / "app" / "training" / "gateway"
SOURCES = [path for folder in ("app", "actors") for path in (REPOSITORY / folder).rglob("*.py")]
HTTP_CLIENTS = {"requests", "httpx", "aiohttp", "urllib3", "http"}
ALREADY = """Request failed with status code 500: Traceback (most recent call last):
RuntimeError: Request failed with status code 400: Traceback (most recent call last):
ValueError: Job with submission_id t--a01 already exists. Please use a different submission_id.
.
."""


def imported(path: Path) -> set[str]:
    """Top-level packages, wherever in the file."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
    return {name.partition(".")[0] for name in names}


@pytest.mark.slow
def test_only_the_gateway_imports_ray():
    named = [path for path in SOURCES if re.search(r"\b(ray|grpc)\b", path.read_text())]
    assert [path for path in named if imported(path) & {"ray", "grpc"}] == [GATEWAY / "ray_gateway.py"]


def test_the_gateway_sends_through_rays_own_client_only():
    assert not [path for path in GATEWAY.rglob("*.py") if imported(path) & HTTP_CLIENTS]
    assert "urllib.request" not in (GATEWAY / "ray_gateway.py").read_text()


def test_a_job_is_missing_only_if_the_job_server_says_so():
    assert ray_translation.is_missing(RuntimeError("Request failed with status code 404: Job t--a01 does not exist."))
    assert not ray_translation.is_missing(RuntimeError("Request failed with status code 404: <html>Not Found</html>."))
    assert not ray_translation.is_missing(
        RuntimeError("Request failed with status code 500: Job t--a01 does not exist.")
    )


def test_a_duplicate_is_told_from_a_refusal_and_from_another_ones_duplicate():
    error = RuntimeError(ALREADY)
    assert ray_translation.is_duplicate(error, "t--a01")
    assert not ray_translation.is_duplicate(error, "t--a02")
    assert ray_translation.is_refusal(error)
    assert not ray_translation.is_refusal(RuntimeError("Request failed with status code 500: No available agent"))


def test_of_a_traceback_the_last_line_is_told():
    assert ray_translation.make_refusal(RuntimeError(ALREADY)).message.endswith("Please use a different submission_id.")
    assert "Traceback" not in ray_translation.unreachable("there", RuntimeError(ALREADY)).message


def test_the_cause_of_silence_is_in_words():
    class ReadTimeout(OSError): ...

    class Timeout(ReadTimeout): ...

    assert "no answer in time" in ray_translation.unreachable("there", Timeout("HTTPConnectionPool(…)")).message
    assert (
        "takes a connection" in ray_translation.unreachable("there", ConnectionError("HTTPConnectionPool(…)")).message
    )


def test_what_is_not_asked_for_is_not_sent():
    sent = ray_translation.to_arguments(Submission("t--a01", "true"))
    assert (sent["runtime_env"], sent["entrypoint_resources"]) == ({}, None)


def test_a_node_that_has_nothing_left_does_not_name_it():
    living = [
        SimpleNamespace(node_id=b"\xab", node_manager_address="h", resources_total={"GPU": 8.0, "CPU": 4.0, "w": 1.0})
    ]
    available = [SimpleNamespace(node_id=b"\xab", resources_available={"CPU": 1.0})]
    assert ray_translation.to_nodes(living, available, "w") == (Node("ab", "h", 8, 0, 4, 1, may_train=True),)
    other = Node("ab", "h", 8, 0, 4, 0, may_train=False, resources={"w": 1})
    assert ray_translation.to_nodes(living, [], "other") == (other,)


def test_rays_own_resources_and_those_of_groups_are_no_custom_ones():
    total = {"CPU": 4.0, "memory": 1.0, "node:10.0.0.1": 1.0, "w": 1.0, "nvlink": 2.0, "nvlink_group_0_aa": 1.0}
    living = [SimpleNamespace(node_id=b"\xab", node_manager_address="h", resources_total=total)]
    [node] = ray_translation.to_nodes(living, [], "w")
    assert node.resources == {"nvlink": 2.0}


def test_a_group_that_waits_has_no_node_even_if_one_was_chosen():
    bundle = SimpleNamespace(node_id=b"\xff", unit_resources={"GPU": 1.0, "CPU": 3.0})
    group = SimpleNamespace(creator_job_id=b"\x02\x00", bundles=[bundle])
    assert ray_translation.to_group(group, is_placed=False) == PlacementGroup("0200", False, (("", 1, 3),))
    assert ray_translation.to_group(group, is_placed=True) == PlacementGroup("0200", True, (("ff", 1, 3),))


def test_what_ray_leaves_open_is_empty_in_a_job():
    names = ("message", "error_type", "driver_exit_code", "job_id", "driver_node_id", "start_time", "end_time")
    details = SimpleNamespace(status=SimpleNamespace(value="PENDING"), **dict.fromkeys(names))
    job = ray_translation.to_job("t--a01", details)
    assert (job.status, job.message, job.ray_job_id, job.started_ms) == (RayStatus.PENDING, "", "", None)


REPORT = {"cpu": 34.5, "mem": [1000, 600, 40.0, 400], "raylet": {"nodeId": "ab"}}
GPU = {"index": 0, "name": "A100", "utilizationGpu": 80, "memoryUsed": 100, "memoryTotal": 81920}


def test_the_use_of_a_node_is_that_of_all_its_gpus() -> None:
    """GpuUtilizationInfo of Ray's reporter, in the spelling of its head."""
    summary = {**REPORT, "gpus": [GPU, {**GPU, "index": 1, "utilizationGpu": 40}, {**GPU, "utilizationGpu": None}]}
    (use,) = ray_translation.to_uses({"data": {"summary": [summary, {"raylet": {"nodeId": "new"}}]}}).values()
    assert use == NodeUse(34.5, 400, 1000, 60.0, 300 << 20, 3 * 81920 << 20)
    bare = ray_translation.to_uses({"data": {"summary": [REPORT]}})["ab"]
    assert (bare.gpu_percent, bare.total_gpu_memory) == (None, 0)


@pytest.mark.parametrize("wrong", [{}, [], {"data": {"summary": [{**REPORT, "gpus": [{"memoryUsed": None}]}]}}])
def test_a_use_of_nodes_in_another_form_is_a_fault_of_rays(wrong: object) -> None:
    with pytest.raises(ValueError, match="unknown form"):
        ray_translation.to_uses(wrong)


@pytest.mark.slow
def test_ray_still_has_these_names() -> None:
    """No machine of the tests has a GPU: the names are those of the installed source."""
    providers = pytest.importorskip("ray.dashboard.modules.reporter.gpu_providers")
    names = providers.GpuUtilizationInfo.__annotations__
    assert {"utilization_gpu", "memory_used", "memory_total"} <= set(names)
    assert providers.MB == 1024 * 1024
