"""Assembles conversion for the web application, the scheduler and the workers. No SQL."""

from __future__ import annotations

from redis import Redis

from app.conversion.intake.entry_points import Converter
from app.conversion.job_index import JobIndex
from app.conversion.service import (
    Admission,
    CacheSweep,
    Conversion,
    Dispatch,
    Edits,
    Estimates,
    Expiry,
    Jobs,
    Previews,
    Receipts,
    Results,
    ResumableUploads,
    Submissions,
    Uploads,
)
from app.conversion.service.completion import Completion
from app.conversion.service.descriptions import Descriptions
from app.conversion.stage_cache import CacheFigures, StageCache
from app.conversion.store import JobStore
from app.conversion.work_leases import WorkLeases
from app.kit.objects import ObjectStore
from app.kit.queue.blocking_broker import BlockingBroker
from app.kit.redis.lease import RedisLease
from app.kit.sandbox.runner import Sandbox
from app.settings import Settings

CONVERTER = Converter("app.exchange.converters:convert")
EDIT_LEASE_S = 30.0


def open_conversion(
    settings: Settings, client: Redis, broker: BlockingBroker, objects: ObjectStore, sandbox: Sandbox, store: JobStore
) -> Conversion:
    """The services of conversion. Nothing connects before it is used.

    Args:
        client: of the database that holds the records.
        broker: where the messages of stages are queued.
        store: the records, through the same client.
    """
    secret = settings.secret_key.get_secret_value() if settings.has_lasting_key else None
    receipts = Receipts(objects, secret=secret, public_url=settings.public_url)
    dispatch = Dispatch(store, broker, Completion(store, Descriptions(objects), receipts))
    uploads = Uploads(settings, objects, sandbox, converter=CONVERTER)
    estimates = Estimates(store, broker)
    admission = Admission(settings, store, estimates)
    submissions = Submissions(settings, store, objects, sandbox, uploads, dispatch, admission)
    cache = StageCache(objects, max_bytes=settings.cache_max_bytes, is_shared=settings.cache_shared)
    figures = CacheFigures(client)
    jobs = Jobs(store, broker, objects, cache)
    return Conversion(
        uploads=uploads,
        resumable_uploads=ResumableUploads(uploads),
        submissions=submissions,
        previews=Previews(settings, objects, sandbox, submissions.find_input),
        jobs=jobs,
        index=JobIndex(store),
        edits=Edits(jobs, lambda job_id: RedisLease(client, f"edit:{job_id}", ttl_s=EDIT_LEASE_S)),
        dispatch=dispatch,
        estimates=estimates,
        results=Results(store, objects, submissions, job_ttl_s=settings.record_ttl_s),
        expiry=Expiry(
            store,
            objects,
            job_ttl_s=settings.record_ttl_s,
            archive_ttl_s=settings.archive_days * 86400,
            upload_ttl_s=settings.upload_ttl_s,
        ),
        receipts=receipts,
        cache=cache,
        cache_figures=figures,
        cache_sweep=CacheSweep(objects, figures, max_bytes=settings.cache_max_bytes),
        work_leases=WorkLeases(client, dispatch.resume),
    )
