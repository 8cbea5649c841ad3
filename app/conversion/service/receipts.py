"""Receipts: the inputs and versions of a finished job, signed by the installation, as a file beside its outputs."""

from __future__ import annotations

import json
from functools import cached_property
from importlib.metadata import version

from app.conversion import object_keys
from app.conversion.model import Artifact, JobRecord
from app.conversion.model.receipt import NAME, PAYLOAD_TYPE, Builder, statement
from app.kit.objects import ObjectStore
from app.kit.signatures import dsse
from app.kit.signatures.keys import PublicKey, SigningKey

PURPOSE = "modelmill receipts"


class Receipts:
    """
    Args:
        secret: The installation's secret key; None if none was set: a made-up one dies with its process, and nobody
            could check what it had signed, so then there are no receipts.
        public_url: How clients reach the web, if that is known.
    """

    def __init__(self, objects: ObjectStore, *, secret: str | None, public_url: str | None) -> None:
        self.objects = objects
        self.public_url = public_url
        self._secret = secret

    @cached_property
    def _key(self) -> SigningKey | None:
        """Derived on first use, because many processes never sign."""
        return SigningKey(self._secret, PURPOSE) if self._secret else None

    @property
    def public_key(self) -> PublicKey | None:
        """With which they are checked."""
        return self._key.public if self._key else None

    def write(self, record: JobRecord) -> dict[str, Artifact]:
        """Adds the receipt of this job as an artifact; none without a key. Repeating it gives the same bytes."""
        if self._key is None:
            return {}
        public = self._key.public
        builder = Builder(self.public_url or f"urn:modelmill:builder:{public.key_id}", version("modelmill"), public.pem)
        text = json.dumps(statement(record, builder), sort_keys=True, ensure_ascii=False, allow_nan=False)
        envelope = dsse.sign(text.encode(), PAYLOAD_TYPE, self._key)
        key = object_keys.extra_file(record.job_id, NAME)
        stored = self.objects.put(key, [envelope.to_bytes()], content_type="application/json")
        return {NAME: Artifact(stored.key, stored.size_bytes, stored.sha256)}

    def remove(self, job_id: str) -> None:
        """Deletes the receipt of a job that has not completed after all."""
        self.objects.delete(object_keys.extra_file(job_id, NAME))
