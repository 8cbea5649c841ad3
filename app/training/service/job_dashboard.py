"""Ray's dashboard of one job, for its owner and administrators: the web server asks Ray with the token of the cluster,
only by GET, and only what `model.ray_dashboard` composes."""

from __future__ import annotations

import json
from asyncio import to_thread
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from app.kit.text.untrusted_json import UnreadableJson, read_json
from app.training.errors import DashboardMissing, EnvironmentNotFound, RayUnreachable
from app.training.model import Attempt, Task
from app.training.model.ray_dashboard import (
    DashboardJob,
    Forwarded,
    choose_request,
    driver_log_lines,
    job_of,
    own_answer,
    redact,
    static_type,
)
from app.training.service.dashboards import MISSING, TIMEOUT_S, Dashboards
from app.training.service.environments import Environments

if TYPE_CHECKING:
    import httpx

MOST_BYTES = 32 << 20
"""Of an answer of Ray: that of ten thousand tasks takes about 12 MB."""
JSON, TEXT = "application/json", "text/plain; charset=utf-8"
OK, REFUSED = 200, (401, 403)
ReadLog = Callable[[int], Awaitable[bytes]]
"""The last lines of the job's log."""


@dataclass(frozen=True)
class DashboardFile:
    """A file of the dashboard, or the answer to one of its requests."""

    content: bytes
    media_type: str


class JobDashboard:
    """Connects to nothing yet."""

    def __init__(self, dashboards: Dashboards, environments: Environments) -> None:
        """
        Args:
            dashboards: of the clusters.
            environments: say which variables are secrets.
        """
        self._dashboards = dashboards
        self._environments = environments

    @cached_property
    def _client(self) -> httpx.AsyncClient:
        import httpx  # imported late because it loads much

        return httpx.AsyncClient(timeout=TIMEOUT_S, trust_env=False, follow_redirects=False)

    def hidden_variables(self, task: Task) -> list[str] | None:
        """Names of environment variables whose values are secrets; None: its environment is no longer known."""
        if not task.environment:
            return []
        try:
            return list(self._environments.get(task.environment).spec.secrets)
        except EnvironmentNotFound:
            return None

    async def require(self, attempt: Attempt) -> None:
        """Checks that Ray has a dashboard of the job.

        Raises:
            DashboardMissing: It no longer knows the job.
            RayUnreachable: It does not answer.
        """
        await self._make_job(attempt, None)

    async def file(self, attempt: Attempt, path: str) -> DashboardFile | None:
        """A file of the dashboard. None: the path names none.

        Raises:
            DashboardMissing: Ray's dashboard has no such file.
            RayUnreachable: Ray does not answer.
        """
        media_type = static_type(path)
        return None if media_type is None else DashboardFile(await self._get(attempt, path), media_type)

    async def data(
        self, attempt: Attempt, path: str, query: Mapping[str, str], hidden: list[str] | None, log: ReadLog
    ) -> DashboardFile:
        """What one of the dashboard's requests is answered: the log, or JSON of this job alone.

        Args:
            attempt: The submission.
            path: Of the request, below the dashboard.
            query: Of the request.
            hidden: As `hidden_variables` returns.
            log: Reads the copy of the log, from which secrets are gone. It raises where it is not this reader's.

        Raises:
            DashboardMissing: It is none of this job's, or does not pass.
            RayUnreachable: Ray does not answer.
        """
        job = await self._make_job(attempt, hidden)
        own = own_answer(path, job)
        if own is not None:
            return DashboardFile(_encode(own), JSON)
        lines = driver_log_lines(path, query, job)
        if lines is not None:
            return DashboardFile(await log(lines), TEXT)
        request = choose_request(path, query, job)
        content = None if request is None else await self._select_part(attempt, request, job)
        if content is None:
            raise DashboardMissing("This part of Ray's dashboard is not shown here.")
        return DashboardFile(content, JSON)

    async def _make_job(self, attempt: Attempt, hidden: list[str] | None) -> DashboardJob:
        document = await to_thread(_parse, await self._get(attempt, f"api/jobs/{attempt.submission_id}"))
        if not isinstance(document, dict) or document.get("submission_id") != attempt.submission_id:
            raise DashboardMissing("Ray no longer knows this job.")
        return job_of(attempt.submission_id, document, hidden)

    async def _select_part(self, attempt: Attempt, request: Forwarded, job: DashboardJob) -> bytes | None:
        """JSON; None: it is of another job. An answer may be of ten thousand rows: it is read in a thread."""
        try:
            answer = await to_thread(_parse, await self._get(attempt, request.path, request.query))
        except RayUnreachable:
            if request.instead is None:
                raise
            return _encode(request.instead)
        return await to_thread(_part_of, answer, request, job)

    async def _get(self, attempt: Attempt, path: str, query: tuple[tuple[str, str], ...] = ()) -> bytes:
        import httpx

        dashboard = self._dashboards.of(attempt.cluster)
        content = bytearray()
        try:
            url = f"{dashboard.address.rstrip('/')}/{path}"
            async with self._client.stream("GET", url, params=query, headers=dashboard.headers()) as answer:
                _check(answer.status_code)
                async for chunk in answer.aiter_bytes():
                    content += chunk
                    if len(content) > MOST_BYTES:
                        raise RayUnreachable("Ray's dashboard answers with too much.")
        except httpx.HTTPError as error:
            raise RayUnreachable(f"Ray's dashboard does not answer: {error or type(error).__name__}.") from None
        return bytes(content)


def _part_of(answer: Any, request: Forwarded, job: DashboardJob) -> bytes | None:
    try:
        part = request.part(answer, job)
    except (KeyError, TypeError, AttributeError):
        raise RayUnreachable("Ray's dashboard answers in a form that is not known.") from None
    return None if part is None else _encode(redact(part, job.secrets))


def _parse(content: bytes) -> Any:
    try:
        return read_json(content)
    except UnreadableJson:
        raise RayUnreachable("Ray's dashboard answers with something else than JSON.") from None


def _encode(document: Any) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def _check(status: int) -> None:
    if status in REFUSED:
        raise RayUnreachable("Ray's dashboard does not accept our token.")
    if status == MISSING:
        raise DashboardMissing("Ray does not know this, or no longer.")
    if status != OK:
        raise RayUnreachable(f"Ray's dashboard answers with status {status}.")
