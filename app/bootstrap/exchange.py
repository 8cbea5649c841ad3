"""Puts exchange together: for the web and its actor."""

from __future__ import annotations

import logging

from redis import Redis, RedisError

from app.conversion.service import Conversion
from app.exchange.service import Exchange
from app.exchange.store import TransferStore
from app.exchange.transfer.protocol import Access
from app.kit.errors import Unavailable
from app.kit.queue.messages import Message, Sender, post
from app.settings import Settings

logger = logging.getLogger(__name__)


def open_exchange(settings: Settings, conversion: Conversion, client: Redis, sender: Sender) -> Exchange:
    """Nothing connects before it is used.

    Args:
        client: of the database that holds the transfers.
        sender: starts a transfer by a message; an error of Redis is raised as Unavailable.
    """

    def start(transfer_id: str) -> None:
        try:
            post(sender, Message.TRANSFER, transfer_id=transfer_id)
        except RedisError as error:
            logger.warning("Transfer %s cannot be started: %s", transfer_id, error)
            raise Unavailable("Redis does not answer.", hint="Try again in a moment.") from error

    access = Access(
        urls=tuple(settings.source_urls.split()),
        networks=settings.source_networks,
        hub_endpoint=settings.hf_endpoint,
        hub_token=settings.hf_token.get_secret_value(),
        hub_repositories=tuple(settings.source_hf_repositories.split()),
        mlflow_uri=settings.mlflow_tracking_uri,
        mlflow_token=settings.mlflow_token.get_secret_value(),
        s3_endpoint=settings.source_s3_endpoint,
        s3_access_key=settings.source_s3_access_key,
        s3_secret_key=settings.source_s3_secret_key.get_secret_value(),
        s3_buckets=tuple(settings.source_s3_buckets.split()),
    )
    return Exchange(
        conversion,
        TransferStore(client),
        access,
        start=start,
        targets=settings.export_targets.split(),
        time_s=settings.transfer_time_s,
    )
