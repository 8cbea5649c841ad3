"""What devices report on the packs of a job: objects beside its artifacts, which stay and go with them."""

from __future__ import annotations

import json
import time
from collections import deque
from dataclasses import asdict, dataclass
from uuid import uuid4

from app.conversion import object_keys
from app.conversion.errors import JobNotFound
from app.conversion.model import Stage
from app.conversion.service.jobs import Jobs
from app.kit.objects import ObjectMissing
from app.kit.objects.content import find_content, put_json
from app.kit.objects.signed_urls import sign, verify
from app.settings import Settings

METHOD = "PACK"
"""Purpose for which tokens are signed, so that they give access to nothing else."""
RESULTS_MAX = 100
"""Results stored for one job; further ones replace the oldest."""


@dataclass(frozen=True)
class DeviceResult:
    """A device's report on a pack."""

    is_pass: bool
    latency_ms: float
    host: str
    message: str
    at: str
    """When it was received, ISO 8601."""


class DeviceResults:
    def __init__(self, settings: Settings, jobs: Jobs) -> None:
        self._settings = settings
        self._jobs = jobs

    def make_token(self, job_id: str) -> str:
        """Returns a token with which anybody can add results of this job, and do nothing else."""
        expires = int(time.time()) + self._settings.record_ttl_s
        return f"{expires}.{sign(self._secret, METHOD, job_id, expires)}"

    def add(self, job_id: str, token: str, result: DeviceResult) -> None:
        """Stores a device's result.

        Raises:
            BadSignature, UrlExpired: The token is not valid.
            JobNotFound: The job was deleted.
        """
        expires, _, signature = token.partition(".")
        verify(self._secret, METHOD, job_id, expires, signature, time.time())
        objects, prefix = self._jobs.objects, object_keys.device_results(job_id)
        try:
            objects.info(object_keys.result(job_id, Stage.NEF))
        except ObjectMissing:
            raise JobNotFound(f"Job {job_id} was deleted.") from None
        put_json(objects, f"{prefix}{result.at}-{uuid4().hex}.json", asdict(result))
        for key in [info.key for info in objects.list(prefix)][:-RESULTS_MAX]:
            objects.delete(key)

    def of(self, user: str, job_id: str) -> list[DeviceResult]:
        """Returns the results of devices, the newest first.

        Raises:
            JobNotFound: The user has no such job.
        """
        self._jobs.known(job_id, user)
        objects = self._jobs.objects
        newest = deque(objects.list(object_keys.device_results(job_id)), RESULTS_MAX)
        contents = [find_content(objects, info.key) for info in reversed(newest)]
        return [DeviceResult(**json.loads(content)) for content in contents if content is not None]

    @property
    def _secret(self) -> str:
        return self._settings.secret_key.get_secret_value()
