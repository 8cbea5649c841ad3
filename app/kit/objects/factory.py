"""Which store this installation uses: options in, an open store out. The only place that knows every store."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from app.kit.objects.base import ObjectStore


@dataclass(frozen=True)
class FilesystemOptions:
    """`public_url`: where clients reach our web. `secret`: signs URLs; the same in every process of an installation."""

    root: Path
    public_url: str
    secret: str = field(repr=False)


@dataclass(frozen=True)
class S3Options:
    """`endpoint` is `host:port` or a URL, whose scheme then decides over `secure`.

    `public_endpoint`, in the same form, is the server's address as clients see it, for presigned URLs.
    """

    endpoint: str
    access_key: str = field(repr=False)
    secret_key: str = field(repr=False)
    bucket: str
    region: str = "us-east-1"
    secure: bool = True
    public_endpoint: str | None = None


def open_store(options: FilesystemOptions | S3Options) -> ObjectStore:
    """Open the store. A folder is created now; an S3 server is not asked anything before the first use.

    Raises StoreUnavailable or StoreRefused if the folder cannot be used, ValueError for an endpoint or a bucket name
    that cannot be one.
    """
    if isinstance(options, FilesystemOptions):
        from app.kit.objects.filesystem import FilesystemStore

        return FilesystemStore(options.root, public_url=options.public_url, secret=options.secret)
    from app.kit.objects.s3 import S3Store  # minio takes its time to import

    return S3Store(
        options.endpoint,
        access_key=options.access_key,
        secret_key=options.secret_key,
        bucket=options.bucket,
        region=options.region,
        secure=options.secure,
        public_endpoint=options.public_endpoint,
    )
