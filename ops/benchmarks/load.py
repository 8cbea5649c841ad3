"""Jobs without inputs, for measuring what lies between the stages."""

from __future__ import annotations

from uuid import uuid4

from app.conversion import model
from app.conversion.model import Stage
from app.conversion.options import Options
from app.kit.clock import now, to_text
from app.wiring import Parts

BIE_S = 1.0
"""How long a BIE stage of busy_actors takes."""


def submit(parts: Parts, *, owner: str = "bench") -> str:
    """Remember a job and queue its first stage, as a submission does once its inputs are checked and kept."""
    job_id, moment = str(uuid4()), now()
    record = model.submitted(
        job_id, now=to_text(moment), owner=owner, name="", tags=(), options=Options(), inputs={}, intake={}
    )
    parts.store.create(record, score=moment.timestamp() * 1e6)
    parts.conversion.dispatch.enqueue(Stage.ONNX, job_id)
    return job_id
