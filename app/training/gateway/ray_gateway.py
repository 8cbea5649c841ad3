"""The only module that imports ray, when a gateway is opened. It only queries and converts, and decides nothing.

Every call has a deadline, which Ray's own functions do not have. GlobalState and get_log() wait in Ray's C++ for a GCS
that is gone, which ends the whole process after a minute; JobSubmissionClient sends without a timeout. So the GCS is
queried with Ray's generated stubs over Ray's own channel (with its TLS and keep-alive), and jobs and logs with the
SDK's client, with a timeout added to the one method through which it sends.
"""

from __future__ import annotations

import math
import os
import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from app.kit.cli.command import CannotStart
from app.training.errors import RayRefused
from app.training.gateway import PlacementGroup, RayJob, Submission, ray_translation
from app.training.gateway.token_file import read_token
from app.training.model import Node
from app.training.model.node_use import NodeUse


class Deadline(threading.local):
    """Deadline of this thread's call."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._end_s: float | None = None

    def __enter__(self) -> None:
        self._end_s = time.monotonic() + self._timeout_s

    def __exit__(self, *_: object) -> None:
        self._end_s = None

    @property
    def left_s(self) -> float:
        """Outside of a call, while a log is read chunk by chunk: each chunk gets the whole time."""
        return self._timeout_s if self._end_s is None else max(self._end_s - time.monotonic(), 0.01)

    @property
    def has_passed(self) -> bool:
        return self._end_s is not None and time.monotonic() > self._end_s


SAFE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
MOST_TAIL_BYTES = 4 << 20
LONGEST_LOG_S = 600
OVERRULING = ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS")
ALL_LINES = -1


@dataclass(frozen=True)
class RayOptions:
    """How the cluster is reached."""

    address: str
    """The URL of the job server."""
    gcs_address: str
    """host:port"""
    token: str = field(default="", repr=False)
    """Token of a cluster with RAY_AUTH_MODE=token."""
    worker_resource: str = "worker_node"
    timeout_s: float = 5
    token_file: Path | None = None
    """A file with the token, instead; read when a connection is made, and again after each fault."""


class RayGateway:
    """A Gateway (see there) to a real cluster. It connects on first use, and again after a fault."""

    def __init__(self, options: RayOptions) -> None:
        """Opens no connection yet.

        Raises:
            CannotStart: Ray is not installed.
        """
        _quieten()
        try:
            self._ray = _Ray()
        except ImportError as error:
            raise CannotStart(
                f"Ray is not installed here ({error}).", hint="Install it: pip install 'modelmill[train]'"
            ) from error
        self._options = options
        self._deadline = Deadline(options.timeout_s)
        self._client: Any = None
        self._channel: Any = None
        self._token: str | None = None

    def submit(self, submission: Submission) -> None:
        if not SAFE_ID.fullmatch(submission.submission_id):  # with a slash Ray stores it, and can never stop it
            raise RayRefused(f"{submission.submission_id!r} cannot be the name of a Ray job.")
        with self._ask_jobs() as client:
            try:
                client.submit_job(**ray_translation.to_arguments(submission))
            except OSError:  # including an invalid body, which is also a ValueError
                raise
            except (ValueError, TypeError) as error:
                raise ray_translation.make_refusal(error) from error
            except RuntimeError as error:
                if ray_translation.is_duplicate(error, submission.submission_id):
                    return
                if ray_translation.is_refusal(error):
                    raise ray_translation.make_refusal(error) from error
                raise

    def job(self, submission_id: str) -> RayJob | None:
        with self._ask_jobs() as client:
            try:
                details = client.get_job_info(submission_id)
            except RuntimeError as error:
                if ray_translation.is_missing(error):
                    return None
                raise
            return ray_translation.to_job(submission_id, details)

    def stop(self, submission_id: str) -> None:
        with self._ask_jobs() as client:
            try:
                client.stop_job(submission_id)
            except RuntimeError as error:
                if not ray_translation.is_missing(error):
                    raise

    def nodes(self) -> tuple[Node, ...]:
        ray = self._ray
        with self._ask_gcs() as channel:
            infos = self._ask(
                ray.stubs.NodeInfoGcsServiceStub(channel).GetAllNodeInfo, ray.messages.GetAllNodeInfoRequest()
            )
            resources = ray.stubs.NodeResourceInfoGcsServiceStub(channel).GetAllAvailableResources
            available = self._ask(resources, ray.messages.GetAllAvailableResourcesRequest())
        living = (node for node in infos.node_info_list if node.state == ray.tables.GcsNodeInfo.ALIVE)
        return ray_translation.to_nodes(living, available.resources_list, self._options.worker_resource)

    def use(self) -> Mapping[str, NodeUse]:
        with self._ask_jobs() as client:
            answer = client._do_request("GET", "/nodes?view=summary")
            answer.raise_for_status()
            return ray_translation.to_uses(answer.json())

    def placement_groups(self) -> tuple[PlacementGroup, ...]:
        ray = self._ray
        with self._ask_gcs() as channel:
            every = ray.stubs.PlacementGroupInfoGcsServiceStub(channel).GetAllPlacementGroup
            groups = self._ask(every, ray.messages.GetAllPlacementGroupRequest()).placement_group_table_data
        table = ray.tables.PlacementGroupTableData
        existing = (group for group in groups if group.state != table.REMOVED)
        return tuple(ray_translation.to_group(group, is_placed=group.state == table.CREATED) for group in existing)

    def log_tail(self, job: RayJob, lines: int) -> bytes:
        """Of very long lines only the last MOST_TAIL_BYTES; if the rest does not arrive in time, what has arrived."""
        tail = b""
        with self._deadline, self._translate_errors(self._options.address):
            # Ray gives up on a silent node before we give up on Ray.
            for chunk in self._log_of(job, lines, within_s=self._options.timeout_s * 0.6):
                tail = (tail + chunk)[-MOST_TAIL_BYTES:]
                if self._deadline.has_passed:
                    break
        return tail

    def log(self, job: RayJob) -> Iterator[bytes]:
        with self._translate_errors(self._options.address):
            yield from self._log_of(job, ALL_LINES, within_s=LONGEST_LOG_S)

    def remark(self) -> str:
        running = getattr(self._client, "_server_ray_version", None)
        return ray_translation.version_remark(running, self._ray.version)

    def close(self) -> None:
        channel, self._channel, self._client, self._token = self._channel, None, None, None
        if channel is not None:
            channel.close()

    def _log_of(self, job: RayJob, lines: int, *, within_s: float) -> Iterator[bytes]:
        """Like the SDK's get_log(), but with the configured address and a deadline."""
        if not job.driver_node_id:
            return
        parameters = {
            "node_id": job.driver_node_id,
            "filename": f"job-driver-{job.submission_id}.log",
            "lines": lines,
            "timeout": math.ceil(within_s),
        }
        with self._jobs().stream(f"/api/v0/logs/file?{urlencode(parameters)}") as answer:
            if answer.status_code == 500:  # the node is gone, or does not have this file
                return
            answer.raise_for_status()
            yield from answer.iter_content(chunk_size=None)

    @contextmanager
    def _ask_jobs(self) -> Iterator[Any]:
        with self._deadline, self._translate_errors(self._options.address):
            yield self._jobs()

    @contextmanager
    def _ask_gcs(self) -> Iterator[Any]:
        with self._deadline, self._translate_errors(self._options.gcs_address):
            if self._channel is None:
                self._channel = self._ray.init_grpc_channel(self._options.gcs_address)
            yield self._channel

    def _jobs(self) -> Any:
        if self._client is None:
            headers = dict(self._iterate_authorization())
            client_class = _make_client_class(self._ray.JobSubmissionClient, self._deadline)
            self._client = client_class(self._options.address, headers=headers)
        return self._client

    def _iterate_authorization(self) -> Iterator[tuple[str, str]]:
        if self._token is None:
            file = self._options.token_file
            self._token = self._options.token if file is None else read_token(file)
        if self._token:
            yield "Authorization", f"Bearer {self._token}"

    def _ask(self, method: Any, request: Any) -> Any:
        metadata = tuple((name.lower(), value) for name, value in self._iterate_authorization())
        return method(request, timeout=self._deadline.left_s, metadata=metadata)

    @contextmanager
    def _translate_errors(self, address: str) -> Iterator[None]:
        try:
            yield
        except self._ray.faults as error:
            self.close()  # cached objects may refer to connections that are gone
            raise ray_translation.unreachable(address, error) from error


class _Ray:
    """The used parts of Ray.

    Raises:
        ImportError: It is not installed, or lacks its `default` extra.
    """

    def __init__(self) -> None:
        import grpc
        from ray import __version__
        from ray._private.grpc_utils import init_grpc_channel
        from ray.core.generated import gcs_pb2, gcs_service_pb2, gcs_service_pb2_grpc
        from ray.exceptions import RayError
        from ray.job_submission import JobSubmissionClient

        self.version = str(__version__)
        self.JobSubmissionClient = JobSubmissionClient
        self.init_grpc_channel = init_grpc_channel
        self.messages, self.stubs, self.tables = gcs_service_pb2, gcs_service_pb2_grpc, gcs_pb2
        # RuntimeError: the SDK's error for an HTTP status; ValueError: for a body that it does not understand.
        self.faults: tuple[type[Exception], ...] = (OSError, RuntimeError, ValueError, grpc.RpcError, RayError)


def _make_client_class(base: Any, deadline: Deadline) -> Any:
    class Client(base):  # type: ignore[misc]  # Ray is imported late, and is not looked into by mypy
        def _do_request(self, method: str, endpoint: str, **arguments: Any) -> Any:
            return super()._do_request(method, endpoint, timeout=deadline.left_s, **arguments)

        def stream(self, endpoint: str) -> Any:
            return self._do_request("GET", endpoint, stream=True, hooks={"response": _leave_unread})

    return Client


def _leave_unread(answer: Any, **_: object) -> None:
    """The SDK searches for a refused token in the text of every response, and would read a whole log into memory for
    it."""
    if answer.status_code == 200:
        answer.__class__ = type("Unread", (type(answer),), {"text": ""})


def _quieten() -> None:
    """Disables Ray's usage reports, and allows no address except the configured one."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    for name in OVERRULING:
        os.environ.pop(name, None)
