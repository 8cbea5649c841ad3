"""The cache of stage outputs by key (see model.stage_key), in the object store, so that the same work is done once.

    cache/{owner}/{key}/files/{artifact}    copies of the stage's outputs, made inside the store
    cache/{owner}/{key}/entry.json          its report, written last: without it there is no entry

An entry is rewritten whenever it is used, so the store's times show which was used least recently. The savings of the
cache are counted in one hash in Redis, which restarts when Redis does. No failure of the store fails a caller: an
unreadable entry counts as missing.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

import redis

from app.conversion import object_keys
from app.conversion.model import Artifact, JobRecord, Stage
from app.kit.errors import ModelmillError
from app.kit.objects import ObjectMissing, ObjectStore
from app.kit.objects.content import put_json, read_json
from app.kit.text.json_values import JsonObject

FORMAT = "modelmill-stage/1"
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class CachedStage:
    """One stage of a job, as it ended."""

    job_id: str
    """The job that produced it."""
    took_s: float
    summary: JsonObject
    versions: dict[str, str]
    files: dict[str, Artifact]
    """By artifact name; the keys are those in the cache."""


class StageCache:
    """
    Args:
        max_bytes: The maximum size; 0: the cache is off.
        is_shared: Whether all users share it.
    """

    def __init__(self, objects: ObjectStore, *, max_bytes: int, is_shared: bool) -> None:
        self.objects = objects
        self.max_bytes = max_bytes
        self.is_shared = is_shared

    @property
    def is_on(self) -> bool:
        return self.max_bytes > 0

    def folder(self, owner: str, key: str) -> str:
        return object_keys.cached(object_keys.SHARED if self.is_shared else owner, key)

    def find(self, owner: str, key: str) -> CachedStage | None:
        """None if there is no entry, or it cannot be read."""
        try:
            return self._find(self.folder(owner, key))
        except ObjectMissing:
            return None
        except (ModelmillError, ValueError, KeyError, TypeError) as error:
            logger.warning("The cache of stages has %s, and it cannot be read: %s", key[:12], error)
            return None

    def restore(self, cached: CachedStage, record: JobRecord) -> dict[str, Artifact] | None:
        """Copies its outputs to the job, except its log. None if that fails: the job then has none of them."""
        made: dict[str, Artifact] = {}
        try:
            for name, file in cached.files.items():
                if name != log_name(record.stage):
                    target = object_keys.output(record.job_id, record.stage, name)
                    made[name] = Artifact(target, file.size_bytes, file.sha256)
                    self.objects.copy(file.key, target)
            return made
        except ModelmillError as error:
            logger.warning("What the cache of stages has for job %s cannot be copied: %s", record.job_id, error)
            self._drop([file.key for file in made.values()])
            return None

    def log_of(self, cached: CachedStage, stage: Stage, *, max_bytes: int) -> bytes:
        """The start of the original stage's log; empty if it is lost."""
        log = cached.files.get(log_name(stage))
        try:
            return b"" if log is None else b"".join(self.objects.read(log.key, end=max_bytes))
        except ModelmillError:
            return b""

    def touch(self, owner: str, key: str, cached: CachedStage) -> None:
        """Marks it as just used."""
        with suppress(ModelmillError):
            self._put_entry(self.folder(owner, key), cached)

    def keep(self, record: JobRecord, key: str, made: CachedStage) -> None:
        """Stores the result of a stage, unless it is larger than the whole cache.

        Args:
            made: The result, with the keys of the job's own files.
        """
        folder, stage = self.folder(record.owner, key), record.stage
        if sum(file.size_bytes for file in made.files.values()) > self.max_bytes:
            return
        try:
            self.objects.delete(f"{folder}{object_keys.ENTRY}")
            copies = {
                name: Artifact(f"{folder}files/{name}", file.size_bytes, file.sha256)
                for name, file in made.files.items()
            }
            for name, file in made.files.items():
                self.objects.copy(file.key, copies[name].key)
            self.objects.put(object_keys.cached_by(record.job_id, key), [])
            self._put_entry(folder, CachedStage(made.job_id, made.took_s, made.summary, made.versions, copies))
        except ModelmillError as error:
            logger.warning("Stage %s of job %s is not kept for reuse: %s", stage, record.job_id, error)
            with suppress(ModelmillError):
                self.objects.delete_prefix(folder)

    def forget_job(self, owner: str, job_id: str) -> None:
        """Deletes the entries of a deleted job. Copies in other jobs stay."""
        for info in list(self.objects.list(object_keys.cached_by(job_id, ""))):
            folder = self.folder(owner, info.key.rpartition("/")[2])
            with suppress(ObjectMissing, ValueError, KeyError, TypeError):
                if self._find(folder).job_id == job_id:
                    self.objects.delete(f"{folder}{object_keys.ENTRY}")
                    self.objects.delete_prefix(folder)

    def _find(self, folder: str) -> CachedStage:
        document = read_json(self.objects, f"{folder}{object_keys.ENTRY}")
        if document.pop("format") != FORMAT:
            raise ValueError("its format is not known here")
        files = {str(name): Artifact(**file) for name, file in document.pop("files").items()}
        return CachedStage(files=files, **document)

    def _put_entry(self, folder: str, cached: CachedStage) -> None:
        put_json(self.objects, f"{folder}{object_keys.ENTRY}", {"format": FORMAT, **asdict(cached)})

    def _drop(self, keys: list[str]) -> None:
        with suppress(ModelmillError):
            for key in keys:
                self.objects.delete(key)


def log_name(stage: Stage) -> str:
    return f"{stage.step}.log"


HASH = "stage-cache"
BYTES, ENTRIES, SWEPT_AT, SAVED_S = "bytes", "entries", "swept_at", "saved_s"


@dataclass(frozen=True)
class CacheUse:
    hits: dict[str, int] = field(default_factory=dict)
    """By step, as misses."""
    misses: dict[str, int] = field(default_factory=dict)
    saved_s: float = 0.0
    """The original duration of the hits, in seconds."""
    size_bytes: int = 0
    """At the last sweep."""
    entries: int = 0
    swept_at: datetime | None = None
    """None: not since Redis started."""


class CacheFigures:
    """Counting never raises, because work does not wait for statistics."""

    def __init__(self, client: redis.Redis) -> None:
        self._client: Any = client

    def count_hit(self, stage: Stage, saved_s: float) -> None:
        self._add({f"hit:{stage.step}": 1, SAVED_S: saved_s})

    def count_miss(self, stage: Stage) -> None:
        self._add({f"miss:{stage.step}": 1})

    def note_size(self, size_bytes: int, entries: int, swept_at: datetime) -> None:
        sizes = {BYTES: size_bytes, ENTRIES: entries, SWEPT_AT: swept_at.timestamp()}
        self._client.hset(HASH, mapping=sizes)

    def read(self) -> CacheUse:
        return use_of(self._client.hgetall(HASH))

    def _add(self, amounts: dict[str, float]) -> None:
        try:
            with self._client.pipeline(transaction=False) as pipe:
                for name, amount in amounts.items():
                    pipe.hincrbyfloat(HASH, name, amount)
                pipe.execute()
        except redis.RedisError as error:
            logger.debug("A use of the cache of stages is not counted: %s", error)


def use_of(fields: dict[bytes, bytes]) -> CacheUse:
    """Parses the hash from Redis."""
    values = {name.decode(): float(value) for name, value in fields.items()}

    def by_step(kind: str) -> dict[str, int]:
        return {stage.step: int(values.get(f"{kind}:{stage.step}", 0)) for stage in Stage}

    size_bytes, entries = int(values.get(BYTES, 0)), int(values.get(ENTRIES, 0))
    swept_at = datetime.fromtimestamp(values[SWEPT_AT], UTC) if SWEPT_AT in values else None
    return CacheUse(by_step("hit"), by_step("miss"), values.get(SAVED_S, 0.0), size_bytes, entries, swept_at)
