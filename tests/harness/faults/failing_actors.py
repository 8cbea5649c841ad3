"""The actors of `faults.actors`, whose stages also know the words of `failing_stages`, and whose patience with a silent
S3 server is short: CHAOS_S3_READ_TIMEOUT_S."""

from __future__ import annotations

import os

from app.kit.objects import s3_connection

s3_connection.READ_TIMEOUT_S = float(os.environ.get("CHAOS_S3_READ_TIMEOUT_S", s3_connection.READ_TIMEOUT_S))

from app.conversion.stages import runner  # noqa: E402
from tests.harness.faults import actors  # noqa: E402

runner.CHILD = "tests.harness.faults.failing_stages:run_stage"

__all__ = ["actors"]
