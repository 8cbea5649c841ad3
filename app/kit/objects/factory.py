"""Selects the store of this installation: options in, an open store out. Only this module imports every store."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from app.kit.objects.base import ObjectStore


@dataclass(frozen=True)
class FilesystemOptions:
    """`public_url`: the web server's URL for clients. `secret`: signs URLs; the same in every process of an
    installation."""

    root: Path
    public_url: str
    secret: str = field(repr=False)


@dataclass(frozen=True)
class S3Options:
    """`endpoint` is `host:port` or a URL, whose scheme then overrides `secure`.

    `public_endpoint`, in the same form, is the server's address for clients, in presigned URLs.
    """

    endpoint: str
    access_key: str = field(repr=False)
    secret_key: str = field(repr=False)
    bucket: str
    region: str = "us-east-1"
    secure: bool = True
    public_endpoint: str | None = None


def open_store(options: FilesystemOptions | S3Options) -> ObjectStore:
    """Opens the store. A folder is created now; an S3 server is not contacted before the first use.

    Raises:
        StoreUnavailable, StoreRefused: The folder cannot be used.
        ValueError: The endpoint or the name of the bucket is invalid.
    """
    if isinstance(options, FilesystemOptions):
        from app.kit.objects.filesystem import FilesystemStore

        return FilesystemStore(options.root, public_url=options.public_url, secret=options.secret)
    from app.kit.objects.s3 import S3Store  # minio is slow to import

    return S3Store(
        options.endpoint,
        access_key=options.access_key,
        secret_key=options.secret_key,
        bucket=options.bucket,
        region=options.region,
        secure=options.secure,
        public_endpoint=options.public_endpoint,
    )
