"""Puts the parts together from the settings, the same for the web, the workers and the tests."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from dramatiq import Middleware
from redis import Redis

from app.conversion.service import (
    Admission,
    Conversion,
    Dispatch,
    Estimates,
    Expiry,
    Jobs,
    Previews,
    Results,
    Submissions,
    Uploads,
)
from app.conversion.service.dispatch import PREFETCH
from app.conversion.stages import StageRunner
from app.conversion.store import JobStore
from app.conversion.toolchains import libraries
from app.kit.clock import now
from app.kit.objects import FilesystemOptions, ObjectStore, S3Options, open_store
from app.kit.objects.timed import TimedStore
from app.kit.observability import tracing
from app.kit.observability.message_tracing import TraceMessages
from app.kit.observability.metrics import MetricsExporter
from app.kit.queue.blocking_broker import BlockingBroker
from app.kit.queue.broker import connect, connect_to_look, make_broker
from app.kit.sandbox.runner import Sandbox
from app.settings import Settings

if TYPE_CHECKING:
    from app.accounts.authenticator import AccountAuthenticator
    from app.accounts.service import Accounts
    from app.homes.service import Homes
    from app.joint_inference.service import Joint
    from app.kit.sql import Database
    from app.model_registry.service import Model, Models
    from app.nodes.service import Nodes
    from app.training.service import Training
    from app.video.service import Video


@dataclass(frozen=True)
class Container:
    settings: Settings
    redis: Redis
    look: Redis
    look_at_queues: Redis
    """The records and the queues for whoever only reports how things are: see connect_to_look."""
    pump: MetricsExporter
    broker: BlockingBroker
    objects: ObjectStore
    sandbox: Sandbox
    store: JobStore
    conversion: Conversion
    stages: StageRunner

    @cached_property
    def accounts(self) -> Accounts:
        """Made when it is first asked for: workers need neither SQL nor the time to import it."""
        from app.accounts.service import ActiveWork
        from app.bootstrap.accounts import open_accounts
        from app.homes.service.outbox import kick_by
        from app.kit.redis.announcements import announcer

        accounts = open_accounts(self.settings, kick=kick_by(self.broker), announce=announcer(self.redis))
        jobs = self.conversion.jobs
        accounts.works.append(ActiveWork("jobs", jobs.count_active, jobs.cancel_all))
        accounts.works.append(ActiveWork("training tasks", self._count_tasks, self._cancel_tasks))
        accounts.works.append(ActiveWork("services", self._count_services, self._delete_services))
        accounts.works.append(ActiveWork("video jobs", self._count_videos, self._cancel_videos))
        return accounts

    @cached_property
    def doorkeeper(self) -> AccountAuthenticator:
        from app.accounts.authenticator import AccountAuthenticator
        from app.accounts.login_throttle import LoginThrottle

        local_user = None if self.settings.demands_accounts else self.settings.local_user
        return AccountAuthenticator(
            self.accounts, LoginThrottle(self.look), local_user=local_user, node_of=self.nodes.authenticate
        )

    @cached_property
    def homes(self) -> Homes:
        from app.bootstrap.homes import open_homes

        return open_homes(self.settings, self.database)

    @cached_property
    def training(self) -> Training:
        from app.bootstrap.training import open_training

        return open_training(self.settings, self.database, self.homes, self.redis, self.conversion)

    @cached_property
    def nodes(self) -> Nodes:
        from app.bootstrap.nodes import open_nodes

        return open_nodes(self.settings, self.accounts, self.redis)

    @cached_property
    def models(self) -> Models:
        from app.model_registry.service import Models

        return Models(self.database, self.objects, self.conversion, self._users_of)

    @cached_property
    def joint(self) -> Joint:
        from app.bootstrap.joint_inference import open_joint

        return open_joint(self)

    @cached_property
    def video(self) -> Video:
        from app.bootstrap.video import open_video

        return open_video(self)

    def _users_of(self, model: Model) -> list[str]:
        services, jobs = self.joint.services.using(model.owner, model.name), self.video.jobs.using(model.card.sha256)
        return [*(f"service {name}" for name in services), *(f"video job {uid}" for uid in jobs)]

    def _count_tasks(self, user: str) -> int:
        return self.training.tasks.count_unended(user)

    def _cancel_tasks(self, user: str) -> None:
        self.training.tasks.cancel_all(user)

    def _count_services(self, user: str) -> int:
        return self.joint.services.count(user)

    def _delete_services(self, user: str) -> None:
        self.joint.services.delete_all(user, now=now())

    def _count_videos(self, user: str) -> int:
        return self.video.jobs.count(user)

    def _cancel_videos(self, user: str) -> None:
        self.video.jobs.cancel_all(user, now=now())

    @property
    def database(self) -> Database:
        return self.accounts.database

    def prepare(self) -> None:
        """What must be so before the web serves: see prepare_accounts."""
        from app.bootstrap.accounts import prepare_accounts

        prepare_accounts(self.accounts, self.settings)

    def close(self) -> None:
        if "accounts" in vars(self):
            self.database.close()
        self.sandbox.close()
        self.store.records.close()
        self.redis.close()
        self.look.close()
        self.look_at_queues.close()
        self.broker.close()


def assemble(settings: Settings, *, middleware: list[Middleware] | None = None) -> Container:
    """middleware: for the broker of a process that runs actors."""
    client = connect(settings.redis_url)
    look = connect_to_look(settings.redis_url)
    traces: list[Middleware] = [TraceMessages()] if tracing.is_on() else []
    broker = make_broker(settings.queues, prefetch=PREFETCH, middleware=[*traces, *(middleware or [])])
    objects = TimedStore(_store(settings))
    ours = (settings.data_dir, settings.work, settings.run, settings.objects, settings.homes)
    sandbox = Sandbox(at_once=settings.checks_at_once, keep_out=ours, libraries=libraries.CHECKS)
    store = JobStore(client, record_ttl_s=settings.record_ttl_s, live_log_bytes=settings.live_log_bytes)
    dispatch = Dispatch(store, broker)
    uploads = Uploads(settings, objects, sandbox)
    estimates = Estimates(store, broker)
    admission = Admission(settings, store, estimates)
    submissions = Submissions(settings, store, objects, sandbox, uploads, dispatch, admission)
    conversion = Conversion(
        uploads=uploads,
        submissions=submissions,
        looks=Previews(settings, objects, sandbox, uploads, submissions.remembered),
        jobs=Jobs(store, broker, objects),
        dispatch=dispatch,
        estimates=estimates,
        results=Results(store, objects, submissions, job_ttl_s=settings.record_ttl_s),
        expiry=Expiry(store, objects, job_ttl_s=settings.record_ttl_s, upload_ttl_s=settings.upload_ttl_s),
    )
    stages = StageRunner(settings, store, objects, sandbox, dispatch.send_done)
    return Container(
        settings,
        client,
        look,
        connect_to_look(settings.queues),
        MetricsExporter(look),
        broker,
        objects,
        sandbox,
        store,
        conversion,
        stages,
    )


def _store(settings: Settings) -> ObjectStore:
    if settings.store == "filesystem":
        secret = settings.secret_key.get_secret_value()
        return open_store(FilesystemOptions(settings.objects, public_url=settings.web_url, secret=secret))
    return open_store(
        S3Options(
            endpoint=settings.s3_endpoint,
            access_key=settings.s3_access_key,
            secret_key=settings.s3_secret_key.get_secret_value(),
            bucket=settings.s3_bucket,
            region=settings.s3_region,
            secure=settings.s3_secure,
            public_endpoint=settings.s3_public_endpoint,
        )
    )
