"""One frozen settings object, and the only reader of the environment (MODELMILL_*)."""

from __future__ import annotations

import os
import secrets
import socket
from functools import lru_cache
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit, urlunsplit

from pydantic import Field, SecretStr, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from app.conversion.options import ToolchainName

MIB = 1024 * 1024
GIB = 1024 * MIB


class Settings(BaseSettings):
    """Every knob, with its default. A secret may also be a file: MODELMILL_SECRETS_DIR/modelmill_<name>."""

    model_config = SettingsConfigDict(
        env_prefix="MODELMILL_", frozen=True, extra="ignore", use_attribute_docstrings=True, env_ignore_empty=True
    )

    data_dir: Path = Path.home() / ".local" / "share" / "modelmill"
    """Where this host keeps what it must keep: objects of the filesystem store, logs, run files."""
    work_dir: Path | None = None
    """Base of the work folders {work_dir}/{job_id}; default data_dir/work. Local to each worker host."""
    run_dir: Path | None = None
    """Slot and lock files of the processes on this host; default data_dir/run."""
    node_name: str = Field(default_factory=socket.gethostname, pattern=r"^[A-Za-z0-9_.-]{1,64}$")
    """Name of this host in worker names; must differ between hosts."""

    host: str = "127.0.0.1"
    port: int = Field(default=8080, ge=1, le=65535)
    public_url: str | None = None
    """How clients reach the web; default http://host:port. Used in signed links."""
    secret_key: SecretStr = Field(default_factory=lambda: SecretStr(secrets.token_hex(32)))
    """Signs links of the filesystem store. Give all web processes the same one."""
    presign_ttl_s: int = Field(default=3600, ge=1, le=7 * 86400)
    """Life of presigned links."""
    upload_ttl_s: int = Field(default=86400, ge=60)
    """Uploads that no job took are deleted after this time."""
    local_user: str = "local"
    """Owner of everything while there are no accounts."""

    redis_url: str = "redis://127.0.0.1:6379/0"
    """Job records and events. Redis 6.2 or newer, or Valkey; without persistence."""
    queue_url: str | None = None
    """The broker's keys; default: the next database number of the same server."""

    store: Literal["filesystem", "s3"] = "filesystem"
    store_root: Path | None = None
    """Root of the filesystem store; default data_dir/objects."""
    s3_endpoint: str = "127.0.0.1:9000"
    s3_public_endpoint: str | None = None
    """Endpoint in presigned links, when clients reach the store by another name."""
    s3_access_key: str = ""
    s3_secret_key: SecretStr = SecretStr("")
    s3_bucket: str = "toolchain-jobs"
    s3_region: str = "us-east-1"
    s3_secure: bool = False

    toolchains: tuple[ToolchainName, ...] = (ToolchainName.HOST,)
    """What this installation offers, as JSON: ["host", "kneron"]."""
    kneron_python: Path = Path("/workspace/miniconda/envs/onnx1.13/bin/python")
    """The vendor's interpreter on the workers."""

    max_model_bytes: int = Field(default=2 * GIB, gt=0)
    max_images_bytes: int = Field(default=4 * GIB, gt=0)
    max_unpacked_bytes: int = Field(default=8 * GIB, gt=0)
    """Size of the reference images once unpacked."""
    max_images: int = Field(default=5000, gt=0)
    max_artifact_bytes: int = Field(default=8 * GIB, gt=0)
    intake_time_s: float = Field(default=300, gt=0)
    """Time limit for checking a submission."""

    stage_memory_bytes: int = Field(default=8 * GIB, gt=0)
    """Memory a stage may use, over all its processes."""
    stage_threads: int = Field(default=0, ge=0)
    """CPU threads a stage may use; 0: all cores."""
    onnx_time_s: float = Field(default=3600, gt=0)
    bie_time_s: float = Field(default=4 * 3600, gt=0)
    nef_time_s: float = Field(default=3600, gt=0)
    log_bytes: int = Field(default=64 * MIB, ge=1024)
    """Size of one stage's log; what goes beyond is dropped and counted."""
    live_log_bytes: int = Field(default=1 * MIB, ge=1024)
    """How much of a running stage's log is kept in Redis for live viewing."""
    record_ttl_s: int = Field(default=30 * 86400, gt=0)
    """Finished jobs are forgotten and their files deleted after this time."""
    worker_ttl_s: int = Field(default=20, ge=2)
    """A worker that was silent for this long is lost."""

    @model_validator(mode="after")
    def _no_two_databases_in_one(self) -> Settings:
        if self.queue_url is not None and self.queue_url == self.redis_url:
            raise ValueError("queue_url must name another database than redis_url")
        return self

    @property
    def queues(self) -> str:
        return self.queue_url or _next_database(self.redis_url)

    @property
    def work(self) -> Path:
        return self.work_dir or self.data_dir / "work"

    @property
    def run(self) -> Path:
        return self.run_dir or self.data_dir / "run"

    @property
    def objects(self) -> Path:
        return self.store_root or self.data_dir / "objects"

    @property
    def web_url(self) -> str:
        return (self.public_url or f"http://{self.host}:{self.port}").rstrip("/")

    @property
    def threads(self) -> int:
        return self.stage_threads or len(os.sched_getaffinity(0))

    def stage_time_s(self, step: str) -> float:
        return {"onnx": self.onnx_time_s, "bie": self.bie_time_s, "nef": self.nef_time_s}[step]


def _next_database(url: str) -> str:
    parts = urlsplit(url)
    database = int(parts.path.strip("/") or 0) + 1
    return urlunsplit(parts._replace(path=f"/{database}"))


@lru_cache(maxsize=1)
def load_settings() -> Settings:
    """Settings from the environment, read once per process."""
    return Settings(_secrets_dir=os.environ.get("MODELMILL_SECRETS_DIR"))
