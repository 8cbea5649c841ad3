"""Rows as values."""

from __future__ import annotations

import json
from typing import Any

from app.joint_inference.model.resource import Service


def to_service(row: Any) -> Service:
    return Service(
        uid=row.uid,
        owner=row.owner,
        namespace=row.namespace,
        name=row.name,
        generation=row.generation,
        version=row.version,
        created_at=row.created_at,
        spec=json.loads(row.spec),
        status=json.loads(row.status),
        labels=json.loads(row.labels),
        annotations=json.loads(row.annotations),
        deleted_at=row.deleted_at,
        gone_at=row.gone_at,
        secret=row.secret,
        reported=json.loads(row.reported),
        managed=json.loads(row.managed),
    )
