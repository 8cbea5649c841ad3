"""What the web server asks the dashboards of the clusters: only GET, with the token of the cluster, and for one task.

Ray itself is not imported: the dashboard is the HTTP server at the address of the job server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from app.kit.text.json_values import JsonObject
from app.training.errors import RayUnreachable, StacksUnavailable
from app.training.model import Attempt, Task

if TYPE_CHECKING:
    import httpx

TIMEOUT_S = 20.0
MOST_PROCESSES = 32
PROFILING_OFF, MISSING = 403, 404


@dataclass(frozen=True)
class Dashboard:
    """Where the dashboard of a cluster is."""

    address: str
    read_token: Callable[[], str] = field(default=str, repr=False)
    """Its token; "": it needs none."""

    def headers(self) -> dict[str, str]:
        token = self.read_token()
        return {"Authorization": f"Bearer {token}"} if token else {}


@dataclass(frozen=True)
class ProcessStack:
    """Where each thread of a process is."""

    name: str
    """Of the actor, or driver."""
    node_id: str
    pid: int
    text: str
    """As py-spy writes it, or why it could not."""


@dataclass(frozen=True)
class Dashboards:
    clusters: Mapping[str, Dashboard] = field(default_factory=dict)
    """By name, as records name them."""

    def stacks(self, task: Task, attempt: Attempt) -> list[ProcessStack]:
        """The stacks of the processes of a running task that Ray knows: its driver and its actors. Each is halted for
        a moment while py-spy reads it.

        Raises:
            StacksUnavailable: It does not run, Ray knows none of its processes, or does not allow this.
            RayUnreachable: Ray does not answer.
        """
        if task.is_terminal or attempt.ended_at is not None or not attempt.ray_status:
            raise StacksUnavailable("The task does not run.", hint="Only running processes have stacks.")
        with self._client(attempt.cluster) as client:
            processes = list(_iterate_processes(client, attempt))[:MOST_PROCESSES]
            if not processes:
                raise StacksUnavailable(
                    "Ray knows no process of the task.",
                    hint="It knows the driver and the actors of programs that use Ray, such as verl, once they run.",
                )
            return [_fetch_stack(client, name, node_id, pid) for name, node_id, pid in processes]

    def _client(self, cluster: str) -> httpx.Client:
        import httpx  # imported late because it loads much

        dashboard = self.of(cluster)
        return httpx.Client(
            base_url=dashboard.address,
            headers=dashboard.headers(),
            timeout=TIMEOUT_S,
            trust_env=False,
            follow_redirects=False,
        )

    def of(self, cluster: str) -> Dashboard:
        """Returns the dashboard of a cluster.

        Args:
            cluster: Its name, as records have it.

        Raises:
            RayUnreachable: It is not in the settings any more.
        """
        dashboard = self.clusters.get(cluster)
        if dashboard is None:
            raise RayUnreachable("The cluster of the task is no longer in the settings.")
        return dashboard


def _iterate_processes(client: httpx.Client, attempt: Attempt) -> Iterator[tuple[str, str, int]]:
    """Name, node id and pid."""
    job = _require_object(_get(client, f"/api/jobs/{attempt.submission_id}"))
    driver = job.get("driver_info") or {}
    if driver.get("pid") and job.get("driver_node_id"):
        yield "driver", str(job["driver_node_id"]), int(driver["pid"])
    job_id = job.get("job_id") or attempt.ray_job_id
    if not job_id:
        return
    filters = [("job_id", "=", job_id), ("state", "=", "ALIVE")]
    names = ("filter_keys", "filter_predicates", "filter_values")
    query = [pair for each in filters for pair in zip(names, each, strict=True)]
    listed = _require_object(_get(client, "/api/v0/actors", [("detail", "1"), ("limit", str(MOST_PROCESSES)), *query]))
    for actor in listed.get("data", {}).get("result", {}).get("result", []):
        if actor.get("pid") and actor.get("node_id"):
            yield str(actor.get("class_name") or "actor"), str(actor["node_id"]), int(actor["pid"])


def _fetch_stack(client: httpx.Client, name: str, node_id: str, pid: int) -> ProcessStack:
    answer = _get(client, "/worker/traceback", [("pid", str(pid)), ("node_id", node_id)])
    if answer.status_code == PROFILING_OFF:
        raise StacksUnavailable(
            "Ray does not allow stack dumps.",
            hint="Its head allows them with RAY_DASHBOARD_ENABLE_PROFILING=1, and the nodes need py-spy.",
        )
    return ProcessStack(name, node_id, pid, answer.text.strip())


def _get(client: httpx.Client, path: str, query: Sequence[tuple[str, str]] = ()) -> httpx.Response:
    """Asks Ray's dashboard; a refused token counts as unreachable."""
    import httpx

    try:
        answer = client.get(path, params=tuple(query))
    except httpx.HTTPError as error:
        raise RayUnreachable(f"Ray's dashboard does not answer: {error or type(error).__name__}.") from None
    if answer.status_code in (401, 403) and not path.startswith("/worker"):
        raise RayUnreachable("Ray's dashboard does not accept our token.")
    return answer


def _require_object(answer: httpx.Response) -> JsonObject:
    if answer.status_code == MISSING:
        return {}
    try:
        content = answer.json()
    except ValueError:
        content = None
    if answer.is_error or not isinstance(content, dict):
        raise RayUnreachable(f"Ray's dashboard answers with status {answer.status_code}.")
    return content
