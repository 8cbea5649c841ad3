"""s3:// — from buckets that the operator allows."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

import urllib3
from minio import Minio
from minio.error import MinioException, S3Error

from app.exchange.errors import REACH_HINT, SourceRefused, TransferFailed
from app.exchange.model import Source
from app.exchange.transfer.protocol import CHUNK_BYTES, Access, Fetched, Progress


def fetch(source: Source, folder: Path, access: Access, progress: Progress) -> Fetched:
    """Fetch an object of S3.

    Args:
        folder: takes the file, by the last part of its key.
        access: which buckets are allowed, and S3's keys.
        progress: hears of each chunk; raises when they are too many bytes.

    Raises:
        SourceRefused: The operator does not allow the bucket.
        SourceTooLarge: Before or while it is fetched.
        TransferFailed: The server refuses, or does not answer.
    """
    bucket, key = source.parts["bucket"], source.parts["key"]
    if not any(fnmatchcase(bucket, pattern) for pattern in access.s3_buckets):
        raise SourceRefused(
            f"This installation does not fetch models from the bucket {bucket}.",
            hint="The operator can allow buckets with MODELMILL_SOURCE_S3_BUCKETS.",
        )
    scheme, _, host = access.s3_endpoint.rpartition("://")
    client = Minio(
        host, access_key=access.s3_access_key or None, secret_key=access.s3_secret_key or None, secure=scheme != "http"
    )
    target = folder / Path(key).name
    try:
        progress.expect(client.stat_object(bucket, key).size)
        answer = client.get_object(bucket, key)
        try:
            with target.open("wb") as file:
                for chunk in answer.stream(CHUNK_BYTES):
                    progress.add(len(chunk))
                    file.write(chunk)
        finally:
            answer.close()
            answer.release_conn()
    except S3Error as error:
        raise TransferFailed(f"{source.text} was refused: {error.code}.", hint="Is the key right?") from error
    except (MinioException, urllib3.exceptions.HTTPError, OSError) as error:
        raise TransferFailed(f"{source.text} could not be fetched: {error}", hint=REACH_HINT) from error
    return Fetched(target)
