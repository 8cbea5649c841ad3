"""Puts the parts together from the settings, the same for the web, the workers and the tests."""

from __future__ import annotations

from dataclasses import dataclass

import redis
from dramatiq import Middleware

from app.conversion.service import Conversion, Dispatch, Estimates, Expiry, Jobs, Looks, Submissions, Uploads
from app.conversion.service.dispatch import QUEUES
from app.conversion.stages import StageRunner
from app.conversion.store import JobStore
from app.conversion.toolchains.sandbox import Sandbox
from app.kit.broker import connect, make_broker
from app.kit.objects import FilesystemOptions, ObjectStore, S3Options, open_store
from app.kit.waiting_broker import WaitingBroker
from app.settings import Settings


@dataclass(frozen=True)
class Parts:
    settings: Settings
    redis: redis.Redis
    broker: WaitingBroker
    objects: ObjectStore
    sandbox: Sandbox
    store: JobStore
    conversion: Conversion
    stages: StageRunner

    def close(self) -> None:
        self.sandbox.close()
        self.redis.close()
        self.broker.close()


def assemble(settings: Settings, *, middleware: list[Middleware] | None = None) -> Parts:
    """middleware: for the broker of a process that runs actors."""
    client = connect(settings.redis_url)
    broker = make_broker(settings.queues, one_at_a_time=QUEUES, middleware=middleware)
    objects = _store(settings)
    sandbox = Sandbox()
    store = JobStore(client, record_ttl_s=settings.record_ttl_s, live_log_bytes=settings.live_log_bytes)
    dispatch = Dispatch(store, broker)
    uploads = Uploads(settings, objects)
    submissions = Submissions(settings, store, objects, sandbox, uploads, dispatch)
    conversion = Conversion(
        uploads=uploads,
        submissions=submissions,
        looks=Looks(settings, objects, sandbox, uploads, submissions.remembered),
        jobs=Jobs(store, broker, objects),
        dispatch=dispatch,
        estimates=Estimates(store, broker),
        expiry=Expiry(store, objects, job_ttl_s=settings.record_ttl_s, upload_ttl_s=settings.upload_ttl_s),
    )
    stages = StageRunner(settings, store, objects, sandbox, dispatch.send_done)
    return Parts(settings, client, broker, objects, sandbox, store, conversion, stages)


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
