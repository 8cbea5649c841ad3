"""What tasks are called."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime

from app.training.model import Workload

MAX_ID = 95
"""Ray keeps, and never lets go of, a submission whose id has other characters than a-z, 0-9 and -."""


def new_task_id(prefix: str, user: str, workload: Workload, now: datetime) -> str:
    """mvp2-alice-ppo-20251223-143201-7f3a: readable, and hardly ever twice; whoever stores it sees to that."""
    stamp = now.astimezone(UTC).strftime("%Y%m%d-%H%M%S")
    end = f"-{workload.value}-{stamp}-{secrets.token_hex(2)}"
    return f"{prefix}-{user.replace('.', '-').replace('_', '-')}"[: MAX_ID - len(end)] + end
