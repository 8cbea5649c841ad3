"""Between our words and Ray's. Pure: it knows the shape of what Ray takes and sends, and none of its modules."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from app.kit.text.json_values import JsonObject
from app.training.errors import RayRefused, RayUnreachable
from app.training.gateway import PlacementGroup, RayJob, RayStatus, Submission
from app.training.model import Node
from app.training.model.node_use import NodeUse

BUILT_IN = frozenset({"CPU", "GPU", "memory", "object_store_memory"})
LONGEST_CAUSE = 300
MIB = 1 << 20
MISSING = re.compile(r"status code 404: Job \S+ does not exist")
REFUSED = re.compile(r"status code 400\b")


def to_arguments(submission: Submission) -> dict[str, Any]:
    """The arguments of JobSubmissionClient.submit_job."""
    return {
        "submission_id": submission.submission_id,
        "entrypoint": submission.entrypoint,
        "runtime_env": {name: value for name, value in _build_runtime_env(submission).items() if value},
        "metadata": dict(submission.metadata),
        "entrypoint_num_cpus": submission.cpus,
        "entrypoint_num_gpus": submission.gpus,
        "entrypoint_resources": dict(submission.resources) or None,
    }


def _build_runtime_env(submission: Submission) -> JsonObject:
    env_vars = {**submission.env, **submission.secrets}
    return {"env_vars": env_vars, "pip": list(submission.pip), "image_uri": submission.image}


def is_missing(error: Exception) -> bool:
    """The job server does not have this job. Any other 404 comes from something that is not a job server."""
    return bool(MISSING.search(str(error)))


def is_refusal(error: Exception) -> bool:
    """The job server, or the agent behind it, considers the request invalid: repeating it is useless."""
    return bool(REFUSED.search(str(error)))


def is_duplicate(error: Exception, submission_id: str) -> bool:
    return f"submission_id {submission_id} already exists" in str(error)


def is_bad_token(error: Exception) -> bool:
    return type(error).__name__ == "AuthenticationError" or _read_grpc_code(error) in (
        "UNAUTHENTICATED",
        "PERMISSION_DENIED",
    )


def make_refusal(error: Exception) -> RayRefused:
    return RayRefused(f"Ray does not take the job: {_find_last_line(str(error))}")


def unreachable(address: str, error: Exception) -> RayUnreachable:
    if is_bad_token(error):
        return RayUnreachable(
            f"Ray at {address} does not accept our token.", hint="Set MODELMILL_RAY_TOKEN to the token of the cluster."
        )
    return RayUnreachable(
        f"Ray does not answer at {address}: {_describe_cause(error)}.",
        hint="See that its head runs, and that MODELMILL_RAY_ADDRESS and MODELMILL_RAY_GCS_ADDRESS lead there.",
    )


def _describe_cause(error: Exception) -> str:
    """A short description. For a traceback, which Ray's servers send, its last line."""
    names = {kind.__name__ for kind in type(error).__mro__}
    if "Timeout" in names or _read_grpc_code(error) == "DEADLINE_EXCEEDED":
        return "no answer in time"
    if "ConnectionError" in names or _read_grpc_code(error) == "UNAVAILABLE":
        return "nothing there takes a connection, or it broke"
    return _find_last_line(str(error)) or type(error).__name__


def _find_last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines()]
    return next((line for line in reversed(lines) if line.strip(".")), "")[:LONGEST_CAUSE]


def _read_grpc_code(error: Exception) -> str:
    code = getattr(error, "code", None)
    return str(getattr(code(), "name", "")) if callable(code) else ""


def to_job(submission_id: str, details: Any) -> RayJob:
    """details: JobDetails of Ray's SDK."""
    return RayJob(
        submission_id=submission_id,
        status=RayStatus(details.status.value),
        message=details.message or "",
        error_type=details.error_type or "",
        exit_code=details.driver_exit_code,
        ray_job_id=details.job_id or "",
        driver_node_id=details.driver_node_id or "",
        started_ms=details.start_time,
        ended_ms=details.end_time,
    )


def to_nodes(living: Iterable[Any], available: Iterable[Any], worker_resource: str) -> tuple[Node, ...]:
    """living: GcsNodeInfo; available: AvailableResources. Used-up and not yet reported resources are absent."""
    free = {each.node_id: each.resources_available for each in available}
    return tuple(_to_node(node, free.get(node.node_id, {}), worker_resource) for node in living)


def _to_node(node: Any, free: Mapping[str, float], worker_resource: str) -> Node:
    total: Mapping[str, float] = node.resources_total
    return Node(
        node_id=node.node_id.hex(),
        address=node.node_manager_address,
        total_gpus=total.get("GPU", 0),
        free_gpus=free.get("GPU", 0),
        total_cpus=total.get("CPU", 0),
        free_cpus=free.get("CPU", 0),
        may_train=total.get(worker_resource, 0) > 0,
        resources=_select_custom(total, worker_resource),
        free_resources=_select_custom(free, worker_resource),
    )


def _select_custom(resources: Mapping[str, float], worker_resource: str) -> dict[str, float]:
    """Neither Ray's own, nor those of placement groups, which are parts of the others."""
    return {
        name: amount
        for name, amount in resources.items()
        if name not in BUILT_IN and name != worker_resource and not name.startswith("node:") and "_group_" not in name
    }


def version_remark(running: str | None, installed: str) -> str:
    """running: version of the cluster; None: it is not known."""
    if running is None or running == installed:
        return ""
    return f"The cluster runs Ray {running}, and the scheduler has {installed}: install the same version for both."


def to_uses(answer: Any) -> dict[str, NodeUse]:
    """Nodes whose reporter has not reported yet are left out.

    Args:
        answer: of `/nodes?view=summary`.

    Raises:
        ValueError: It has another form, as that of another version of Ray may.
    """
    try:
        summaries = answer["data"]["summary"]
        reporting = [each for each in summaries if each.get("mem") and each.get("raylet", {}).get("nodeId")]
        return {each["raylet"]["nodeId"]: _to_use(each) for each in reporting}
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise ValueError("the use of nodes has an unknown form") from error


def _to_use(summary: Mapping[str, Any]) -> NodeUse:
    """mem: total, available, percent, used, in bytes; memory of GPUs is in MiB."""
    gpus = summary.get("gpus") or []
    loads = [gpu["utilizationGpu"] for gpu in gpus if gpu.get("utilizationGpu") is not None]
    return NodeUse(
        cpu_percent=float(summary.get("cpu") or 0),
        memory=int(summary["mem"][3]),
        total_memory=int(summary["mem"][0]),
        gpu_percent=sum(loads) / len(loads) if loads else None,
        gpu_memory=sum(int(gpu["memoryUsed"]) for gpu in gpus) * MIB,
        total_gpu_memory=sum(int(gpu["memoryTotal"]) for gpu in gpus) * MIB,
    )


def to_group(group: Any, *, is_placed: bool) -> PlacementGroup:
    """group: PlacementGroupTableData."""
    bundles = tuple(_to_bundle(bundle, is_placed=is_placed) for bundle in group.bundles)
    return PlacementGroup(ray_job_id=group.creator_job_id.hex(), is_placed=is_placed, bundles=bundles)


def _to_bundle(bundle: Any, *, is_placed: bool) -> tuple[str, float, float]:
    needs: Mapping[str, float] = bundle.unit_resources
    return (bundle.node_id.hex() if is_placed else "", needs.get("GPU", 0), needs.get("CPU", 0))
