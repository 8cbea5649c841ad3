"""One frozen settings object, and the only reader of the environment (MODELMILL_*)."""

from __future__ import annotations

import os
import secrets
import socket
from functools import lru_cache
from math import ceil
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit, urlunsplit

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from app.kit.network.addresses import is_loopback
from app.kit.network.networks import read_networks
from app.kit.observability.logs import Format, Level
from app.kit.web.state import FromContainer
from app.toolchain_names import ToolchainName

MIB = 1024 * 1024
GIB = 1024 * MIB
DATABASES = ("sqlite:///", "postgresql://")


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
    """Address that the web listens on. One that others can reach demands accounts."""
    port: int = Field(default=8080, ge=1, le=65535)
    """Port that the web listens on."""
    public_url: str | None = None
    """How clients reach the web, in signed links and in every address that is shown; default: as whoever asks did."""
    secret_key: SecretStr = Field(default_factory=lambda: SecretStr(secrets.token_hex(32)))
    """Signs links of the filesystem store and, by a key derived from it, receipts; keys the hashes of API tokens, and
    encrypts the secrets of services, video jobs and nodes in the database: with another one all tokens end, and those
    secrets cannot be read. Give the same one to all web processes, the scheduler and the controller. Must be set where
    accounts are demanded, and for services, video jobs and receipts."""
    presign_ttl_s: int = Field(default=3600, ge=1, le=7 * 86400)
    """Life of presigned links."""
    upload_ttl_s: int = Field(default=86400, ge=60)
    """Uploads that no job took are deleted after this time."""
    log_format: Format = "auto"
    """json, console (readable), or auto: readable on a terminal and JSON anywhere else."""
    log_level: Level = "info"
    """Least level that is written; debug also has a line for every request."""
    metrics_token: SecretStr = SecretStr("")
    """Who reads /metrics must send it as Authorization: Bearer; without one everybody may."""
    accounts: bool = False
    """Demand a log-in even on this machine. Where others can reach the web it always is: see demands_accounts."""
    local_user: str = "local"
    """Who asks from this machine while no accounts are demanded: an administrator."""
    database_url: SecretStr = SecretStr("")
    """Accounts: sqlite:///path on a local disk, or postgresql://user:password@host/name; default a SQLite file in
    data_dir. Holds a password, so it may be a file in MODELMILL_SECRETS_DIR like the other secrets."""

    homes_root: Path | None = None
    """Root of the data homes, {root}/users/{user} and {root}/common; default data_dir/homes. All processes that use
    them must see it: the web, the scheduler, the SFTP server and whatever runs training."""
    homes_logical_root: str = Field(default="/private", pattern=r"^/[^/\x00]+(/[^/\x00]+)*$")
    """What tasks and users call that root, and where an SFTPGo server sees it."""
    home_quota_bytes: int = Field(default=0, ge=0)
    """How much a data home may hold whose user has no quota of their own; 0: as much as there is."""
    home_quota_files: int = Field(default=1_000_000, ge=0)
    """How many files and folders a data home may hold whose user has no such limit of their own; 0: as many as there
    is room for."""
    jobs_trash_after_days: int = Field(default=3, ge=0, le=3650)
    """So long after its end the folder of a job goes from jobs/ to trash/jobs/ of its user's home."""
    jobs_purge_after_days: int = Field(default=7, ge=1, le=3650)
    """So long after that it is deleted, and so long after its removal a file in trash/files/."""
    sftp: Literal["embedded", "sftpgo", "off"] = "embedded"
    """The SFTP server of the data homes: our own process (`modelmill sftp`), an SFTPGo server, or none."""
    sftp_host: str | None = None
    """Address that the embedded SFTP server listens on; default: as the web."""
    sftp_port: int = Field(default=2022, ge=0, le=65535)
    """Port that it listens on, or that of SFTPGo's SFTP; 0: any. `modelmill up` takes the next that is free."""
    sftp_public_host: str | None = None
    """Name of the SFTP server that users are told; default: the host of public_url, else where it listens, else the
    name by which the reader reached the web."""
    sftp_database_url: SecretStr = SecretStr("")
    """The database as the embedded SFTP server reaches it, by a PostgreSQL account of few rights; default: as all
    others."""
    sftp_idle_s: float = Field(default=1800, gt=0)
    """The embedded SFTP server ends a session in which nothing was asked for this long."""
    sftpgo_url: str = "http://127.0.0.1:8081"
    """Where SFTPGo's REST API is, without /api/v2."""
    sftpgo_user: str = "admin"
    """Administrator of SFTPGo that manages the accounts."""
    sftpgo_password: SecretStr = SecretStr("")
    """The administrator's password."""
    sftpgo_api_key: SecretStr = SecretStr("")
    """An API key of SFTPGo, instead of name and password."""

    smtp_host: str = ""
    """Mail server that notifications are sent through; empty: none are sent by e-mail."""
    smtp_port: int = Field(default=587, ge=1, le=65535)
    """Its port."""
    smtp_security: Literal["starttls", "tls", "none"] = "starttls"
    """How it is spoken to: starttls, tls from the first byte, or none at all, for a server on this machine."""
    smtp_user: str = ""
    """Account at the mail server; empty: it asks for none."""
    smtp_password: SecretStr = SecretStr("")
    """Its password."""
    smtp_sender: str = "modelmill@localhost"
    """The address that notifications come from."""
    notification_networks: str = ""
    """Private networks that webhooks and chat may be sent to, as 10.0.0.0/8 fd00::/8; by default only public addresses
    may."""

    ray_address: str = ""
    """Job server of the Ray cluster that trains, http://host:8265; empty: this installation trains nothing."""
    ray_gcs_address: str = ""
    """host:port of the cluster's GCS; default: port 6379 of the host of ray_address."""
    ray_token: SecretStr = SecretStr("")
    """Token of a cluster with RAY_AUTH_MODE=token."""
    ray_homes_root: str = ""
    """Where the nodes of the cluster see the root of the data homes; default: where this host does."""
    ray_worker_resource: str = "worker_node"
    """Custom resource that the nodes have on which training may run; the head has none of it."""
    ray_python: str = "python3"
    """Interpreter of the programs on the nodes of the cluster."""
    task_prefix: str = Field(default="mvp2", pattern=r"^[a-z][a-z0-9]{0,11}$")
    """What the ids of training tasks begin with."""
    training_tick_s: float = Field(default=5, gt=0, le=50)
    """How often the training scheduler looks at Ray and at the queue, when nothing wakes it."""
    training_retry_interval_s: int = Field(default=60, ge=0)
    """So long after a failure for lack of resources a task is tried again."""
    training_retry_most_s: int = Field(default=86400, ge=0)
    """A task that failed so for this long, counted from the first such attempt in a row, stays failed."""
    training_max_running_tasks: int = Field(default=0, ge=0)
    """How many tasks Ray may have at once; 0: as many as there is room for."""
    training_queue: Literal["fifo", "priority", "fair"] = "fifo"
    """In which order tasks are considered: first come, first served; by priority; or by fair shares of the GPUs."""
    training_backfill: bool = False
    """Later tasks go ahead of the first that must wait, as far as time limits (max_run_s) show that they do not delay
    it."""
    training_max_gpus_per_user: int = Field(default=0, ge=0)
    """How many GPUs the running tasks of a user may hold; 0: any number."""
    training_shares: str = ""
    """Weights of users for fair shares, as alice=2 bob=0.5; 1 of who is not named."""
    max_unended_tasks_per_user: int = Field(default=200, gt=0)
    """How many training tasks of a user may be waiting or running; more are refused until one has ended."""

    video_jobs_per_user: int = Field(default=100, gt=0)
    """How many video jobs of a user may run; more are refused until one has ended."""
    video_processes: int = Field(default=1, ge=1, le=64)
    """How many processes compute the stages of video jobs on a node: each does one frame at a time."""
    video_results_days: int = Field(default=30, ge=1)
    """How long the rows are kept that video jobs answer, frame by frame."""
    video_results_per_job: int = Field(default=1_000_000, ge=1000)
    """How many of these a job that runs has; the oldest go."""
    video_keep_days: int = Field(default=10, ge=1)
    """Video jobs are forgotten so long after their end."""

    redis_url: str = "redis://127.0.0.1:6379/0"
    """Job records and events. Redis 6.2 or newer, or Valkey; without persistence."""
    queue_database: int | None = Field(default=None, ge=0)
    """Database of the queues on the same server; default: the one after that of the records."""

    store: Literal["filesystem", "s3"] = "filesystem"
    """Where artifacts live: in a folder, which all processes must see, or in an S3 store."""
    store_root: Path | None = None
    """Root of the filesystem store; default data_dir/objects."""
    s3_endpoint: str = "127.0.0.1:9000"
    """host:port of the S3 store."""
    s3_public_endpoint: str | None = None
    """Endpoint in presigned links, when clients reach the store by another name."""
    s3_access_key: str = ""
    """Name of the store's account."""
    s3_secret_key: SecretStr = SecretStr("")
    """Its secret."""
    s3_bucket: str = "toolchain-jobs"
    """Bucket of the artifacts; made when it does not exist."""
    s3_region: str = "us-east-1"
    """Region that requests are signed for."""
    s3_secure: bool = False
    """Speak TLS with the store."""

    toolchains: tuple[ToolchainName, ...] = (ToolchainName.HOST,)
    """What this installation offers, as JSON: ["host", "kneron"]."""
    kneron_python: Path = Path("/workspace/miniconda/envs/onnx1.13/bin/python")
    """The vendor's interpreter on the workers."""

    uploads_per_user: int = Field(default=50, ge=1)
    """How many uploads of one user a web process receives at a time; more are refused until one has ended."""
    uploads_at_once: int = Field(default=200, ge=1, le=240)
    """How many uploads a web process receives at a time, of all users."""
    uploads_unfinished_per_user: int = Field(default=50, ge=1)
    """How many resumable uploads of one user may be unfinished; they are deleted after the time uploads are kept."""
    upload_idle_s: float = Field(default=30, gt=0)
    """An upload of which nothing comes for this long is cut off."""
    upload_least_bytes_per_s: int = Field(default=500, ge=0)
    """An upload that comes more slowly than this, once it was waited for as long as above, is cut off."""
    max_model_bytes: int = Field(default=2 * GIB, gt=0)
    """Size of an uploaded model."""
    max_images_bytes: int = Field(default=4 * GIB, gt=0)
    """Size of the uploaded reference images."""
    max_unpacked_bytes: int = Field(default=8 * GIB, gt=0)
    """Size of the reference images once unpacked."""
    max_images: int = Field(default=5000, gt=0)
    """How many reference images a job may have."""
    max_artifact_bytes: int = Field(default=8 * GIB, gt=0)
    """Size of a file that a stage makes; a larger one fails the stage."""
    intake_memory_bytes: int = Field(default=4 * GIB, gt=0)
    """Memory that the check of a submission may use, on the web's host."""
    source_urls: str = ""
    """https:// addresses that models may be fetched from, with blanks between them; * stands for anything,
    in a host for one part between dots: https://models.example.org/*. None: models are not fetched from URLs."""
    source_networks: str = ""
    """Private networks that these may lie in, as 10.1.0.0/16; else no private address is reached, by no redirect."""
    source_hf_repositories: str = "*"
    """Repositories of the hub that models may be fetched from, with blanks between them, as my-org/*; empty: none."""
    hf_endpoint: str = "https://huggingface.co"
    """The hub, or a server that answers as it does."""
    hf_token: SecretStr = SecretStr("")
    """As whom the hub is asked, by everybody: whoever may submit jobs can fetch and push what this token can."""
    mlflow_tracking_uri: str = ""
    """Of the MLflow server that models are fetched from and results are pushed to; empty: none."""
    mlflow_token: SecretStr = SecretStr("")
    """As whom it is asked, by everybody."""
    export_targets: str = "*"
    """Where results may be pushed to, with blanks between them, as hf://my-org/* mlflow://experiment/edge*; empty:
    nowhere. Whoever may submit jobs pushes with the tokens above."""
    source_s3_endpoint: str = "s3.amazonaws.com"
    """Of s3:// sources; with http:// before it without TLS."""
    source_s3_access_key: str = ""
    """Of s3:// sources; empty: they are read without signing in."""
    source_s3_secret_key: SecretStr = SecretStr("")
    """Belongs to the access key."""
    source_s3_buckets: str = ""
    """Buckets that models may be fetched from, with blanks between them; * stands for anything; empty: none."""
    transfer_time_s: float = Field(default=3600, gt=0)
    """Time limit for fetching a model or pushing results."""
    sandbox_idle_s: float = Field(default=0, ge=0)
    """After so long without work the processes that keep the toolchains' libraries loaded end and give their memory
    back; the next work then waits a second or two for them. 0: they are loaded at the start and stay. `modelmill up`
    sets 60."""
    checks_at_once: int = Field(default=4, gt=0)
    """How many files may be checked at once on the web's host; further ones wait."""
    intake_time_s: float = Field(default=300, gt=0)
    """Time limit for checking a submission."""

    max_active_jobs: int = Field(default=1000, gt=0)
    """How many jobs may be waiting or running at once; more are refused until one has ended."""
    max_active_jobs_per_user: int = Field(default=200, gt=0)
    """The same for each user."""

    stage_memory_bytes: int = Field(default=8 * GIB, gt=0)
    """Memory a stage may use, over all its processes."""
    stage_threads: int = Field(default=0, ge=0)
    """CPU threads a stage may use; 0: all cores."""
    onnx_time_s: float = Field(default=600, gt=0)
    """Time limit of the ONNX stage, to which comes its time per MiB of the model."""
    onnx_time_s_per_mib: float = Field(default=5, ge=0)
    """What each MiB of the model adds to the time limit of the ONNX stage."""
    bie_time_s: float = Field(default=4 * 3600, gt=0)
    """Time limit of the BIE stage."""
    nef_time_s: float = Field(default=3600, gt=0)
    """Time limit of the NEF stage."""
    log_bytes: int = Field(default=64 * MIB, ge=1024)
    """Size of one stage's log; what goes beyond is dropped and counted."""
    live_log_bytes: int = Field(default=1 * MIB, ge=1024)
    """How much of a running stage's log is kept in Redis for live viewing."""
    record_ttl_s: int = Field(
        default_factory=lambda data: (data["jobs_trash_after_days"] + data["jobs_purge_after_days"]) * 86400, gt=0
    )
    """Finished jobs are forgotten and their files deleted after this time; by default when the folder of a training job
    that ended with them is deleted."""
    archive_days: int = Field(default=90, ge=0, le=36500)
    """So long after its end a job that has completed stays in the archive with its files, unless its owner keeps it;
    never shorter than record_ttl_s."""
    cache_max_bytes: int = Field(default=20 * GIB, ge=0)
    """How much the store keeps of stages' outputs, so that the same work of the same user is done once; what was used
    least recently goes first. 0: nothing is kept, and every stage is done."""
    cache_shared: bool = False
    """All users share what stages have made: who submits a model and pictures that another user had submitted before
    gets that user's outputs, and sees that they were there."""
    worker_ttl_s: int = Field(default=20, ge=2)
    """A worker that was silent for this long is lost."""
    shutdown_grace_s: float = Field(default=5, ge=0)
    """How long a worker told to end may go on with the stage in hand; then the job fails. What starts the workers must
    wait ten seconds longer before it kills them."""

    @model_validator(mode="after")
    def _no_two_databases_in_one(self) -> Settings:
        if self.queue_database == _database(self.redis_url):
            raise ValueError("queue_database must be another one than redis_url names")
        return self

    @field_validator("database_url", "sftp_database_url")
    @classmethod
    def _a_database_we_know(cls, url: SecretStr) -> SecretStr:
        if url.get_secret_value() and not url.get_secret_value().startswith(DATABASES):
            raise ValueError(f"must begin with {' or '.join(DATABASES)}")
        return url

    @field_validator("notification_networks")
    @classmethod
    def _networks(cls, text: str) -> str:
        read_networks(text)
        return text

    @property
    def database(self) -> str:
        """The URL with its password: not for logs."""
        return self.database_url.get_secret_value() or f"sqlite:///{self.data_dir / 'modelmill.db'}"

    @property
    def demands_accounts(self) -> bool:
        """Can anybody but this machine reach the web? Then everybody must say who they are."""
        public = urlsplit(self.public_url).hostname if self.public_url else None
        return self.accounts or not is_loopback(self.host) or (public is not None and not is_loopback(public))

    @property
    def has_lasting_key(self) -> bool:
        """Was the secret key set? A made-up one dies with the process."""
        return "secret_key" in self.model_fields_set

    @property
    def queues(self) -> str:
        records = _database(self.redis_url)
        database = records + 1 if self.queue_database is None else self.queue_database
        return urlunsplit(urlsplit(self.redis_url)._replace(path=f"/{database}"))

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
    def homes(self) -> Path:
        return self.homes_root or self.data_dir / "homes"

    @property
    def sftp_address(self) -> str:
        return self.sftp_host or self.host

    @property
    def sftp_known_host(self) -> str | None:
        """Name of the SFTP server where the settings tell it; else it goes by the name that the web is reached by."""
        is_one = self.sftp_host is not None and self.sftp_host.strip("[]") not in ("", "0.0.0.0", "::")  # noqa: S104
        public = urlsplit(self.public_url).hostname if self.public_url else None
        return self.sftp_public_host or public or (self.sftp_host if is_one else None)

    @property
    def web_url(self) -> str:
        return (self.public_url or f"http://{self.host}:{self.port}").rstrip("/")

    @property
    def threads(self) -> int:
        return self.stage_threads or len(os.sched_getaffinity(0))

    def stage_time_s(self, step: str, model_bytes: int) -> float:
        onnx_s = ceil(self.onnx_time_s + self.onnx_time_s_per_mib * model_bytes / MIB)
        return {"onnx": onnx_s, "bie": self.bie_time_s, "nef": self.nef_time_s}[step]


settings_of = FromContainer[Settings]("settings")
"""Of the application that a request came to."""


def _database(url: str) -> int:
    return int(urlsplit(url).path.strip("/") or 0)


@lru_cache(maxsize=1)
def load_settings() -> Settings:
    """Settings from the environment, read once per process."""
    return Settings(_secrets_dir=os.environ.get("MODELMILL_SECRETS_DIR"))


def secret_files() -> dict[str, str]:
    """Variable → value, of the settings that are files; a variable of that name goes before."""
    folder = os.environ.get("MODELMILL_SECRETS_DIR")
    files = Path(folder).glob("modelmill_*") if folder else ()
    return {path.name.upper(): path.read_text().strip() for path in files if path.is_file()}
