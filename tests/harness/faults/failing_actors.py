"""The actors of `actors`, whose stages also know the words of `failing_stages`, and whose patience with the object
store is what the environment says: CHAOS_S3_READ_TIMEOUT_S, the seconds for a server that falls silent, and
CHAOS_STORE_PATIENCE, which portion of the product's half a minute for one that is away."""

from __future__ import annotations

import os

from app.kit.objects import s3_connection

s3_connection.READ_TIMEOUT_S = float(os.environ.get("CHAOS_S3_READ_TIMEOUT_S", s3_connection.READ_TIMEOUT_S))

from app.conversion.stages import runner  # noqa: E402
from tests.harness.faults import actors  # noqa: E402

PATIENCE = float(os.environ.get("CHAOS_STORE_PATIENCE", "1"))
runner.UPLOAD_AGAIN_S = tuple(pause_s * PATIENCE for pause_s in runner.UPLOAD_AGAIN_S)  # type: ignore[assignment]
runner.CHILD = "tests.harness.faults.failing_stages:run_stage"

__all__ = ["actors"]
