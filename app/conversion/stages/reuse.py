"""Takes the result of a stage from the cache if it was done before, and stores new results there."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError
from typing import Any

from app.conversion.model import Artifact, JobRecord
from app.conversion.model.stage_key import stage_key
from app.conversion.options import ToolchainName
from app.conversion.stage_cache import CachedStage, CacheFigures, StageCache
from app.conversion.stages.workspace import Workspace
from app.conversion.toolchains.host.versions import tool_versions
from app.conversion.toolchains.kneron.vendor import Vendor
from app.conversion.work_leases import Turn, WorkLeases
from app.kit.text.plain_text import short_duration
from app.settings import Settings

USED = ("cpu_s", "wall_s", "peak_bytes")
"""Resource usage of the run itself: a reused stage uses none."""


@dataclass(frozen=True)
class ReusedStage:
    """The report of a reused stage."""

    cached: CachedStage
    artifacts: dict[str, Artifact]


class StageReuse:
    """Earlier results of the same work, which a stage reuses.

    Args:
        cache: the outputs of stages.
        figures: counts the reuse.
        leases: prevent two jobs from doing the same work at once.
    """

    def __init__(self, settings: Settings, cache: StageCache, figures: CacheFigures, leases: WorkLeases) -> None:
        self.settings = settings
        self.cache = cache
        self.figures = figures
        self.leases = leases

    def key_of(self, record: JobRecord) -> str | None:
        """The key of the work; None if it is unknown or must not be reused."""
        if not self.cache.is_on:
            return None
        try:
            versions = self._read_versions(record.options.toolchain)
        except PackageNotFoundError:
            return None
        return stage_key(record, versions=versions, machine=platform.machine())

    def take(self, space: Workspace, key: str | None) -> ReusedStage | None:
        """Copies the result of the same work to this job. None: the stage has to run."""
        record = space.record
        if key is None or record.no_cache:
            return None
        cached = self.cache.find(record.owner, key)
        artifacts = self.cache.restore(cached, record) if cached else None
        if cached is None or artifacts is None:
            self.figures.count_miss(space.stage)
            return None
        self.cache.touch(record.owner, key, cached)
        self.figures.count_hit(space.stage, cached.took_s)
        self._write_log(space, cached)
        return ReusedStage(cached, artifacts)

    @contextmanager
    def turn(self, record: JobRecord, key: str | None) -> Iterator[Turn]:
        """Acquires the lease on the work, or waits for the job that holds it."""
        if key is None or record.no_cache:
            yield Turn.MINE
            return
        with self.leases.turn(self.cache.folder(record.owner, key), record.job_id) as turn:
            yield turn

    def keep(self, space: Workspace, key: str | None, facts: Mapping[str, Any], *, took_s: float) -> None:
        """Args: facts: From the stage's report: summary, versions, artifacts."""
        if key is not None:
            files = {name: Artifact(**file) for name, file in facts["artifacts"].items()}
            summary = {name: value for name, value in facts["summary"].items() if name not in USED}
            made = CachedStage(space.record.job_id, round(took_s, 3), summary, facts["versions"], files)
            self.cache.keep(space.record, key, made)

    def _write_log(self, space: Workspace, cached: CachedStage) -> None:
        log = self.cache.log_of(cached, space.stage, max_bytes=self.settings.live_log_bytes)
        head = f"reused from job {cached.job_id}, saved {short_duration(cached.took_s)}"
        text = f"{head}\n{f'its log:{chr(10)}' if log else ''}"
        with suppress(OSError):
            space.log.write_bytes(text.encode() + log)

    def _read_versions(self, toolchain: ToolchainName) -> dict[str, str]:
        """A vendor image that does not report its version could be any."""
        ours = tool_versions()
        if toolchain is ToolchainName.HOST:
            return ours
        vendor = Vendor(python=self.settings.kneron_python)
        return {"kneron_toolchain": vendor.version(), **ours}
