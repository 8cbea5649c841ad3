"""The digest of a job, by which lists find, sort and show it: a few words and numbers of its record. Pure.

It is used by the index in Redis, and by filters over jobs outside Redis (an archive), which read digests one by one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from app.conversion.model.record import JobRecord, Stage, Status
from app.kit.clock import from_text

NUMBERS = ("snr", "size", "latency", "took", "created")
"""In dB, bytes, ms, s, s of the epoch."""
STATES = ("running", "onnx", "bie", "nef", "ended", "completed", "failed", "cancelled")
"""A job has several of them: one that stage BIE works on is `running` and `bie`."""
VERDICTS = ("passed", "below", "unmeasured")
CANCELLED = "CANCELLED"
_PIECE = re.compile(r"[^\W_]+")


@dataclass(frozen=True)
class JobDigest:
    job_id: str
    labels: Mapping[str, frozenset[str]]
    """By kind (status, verdict, tag, target, owner, method), lower case."""
    texts: Mapping[str, frozenset[str]]
    """Name and model, in pieces."""
    numbers: Mapping[str, float] = field(default_factory=dict)
    """Those of NUMBERS that are known."""

    @property
    def words(self) -> frozenset[str]:
        """What a word without a key is looked for in."""
        tags = (piece for tag in self.labels["tag"] for piece in pieces(tag))
        return self.texts["name"] | self.texts["model"] | frozenset(tags)


def pieces(text: str) -> tuple[str, ...]:
    """The runs of letters or digits in it, in lower case: yolo_v8-n.onnx has yolo, v8, n and onnx."""
    return tuple(_PIECE.findall(text.lower()))


def digest(record: JobRecord) -> JobDigest:
    """Of a whole record."""
    error_code = record.error.code if record.error else ""
    took = None
    if record.finished_at is not None:
        took = (from_text(record.finished_at) - from_text(record.created_at)).total_seconds()
    numbers = {
        "snr": record.snr_db,
        "size": record.size_bytes,
        "latency": record.latency_ms,
        "took": took,
        "created": from_text(record.created_at).timestamp(),
    }
    options = record.options
    has_method = options.platform is None and options.quantization.is_by_method
    return JobDigest(
        record.job_id,
        {
            "status": states(record.status, error_code),
            "verdict": frozenset({verdict_word(record)}) if record.status is Status.COMPLETED else frozenset(),
            "tag": frozenset(tag.lower() for tag in record.tags),
            "target": frozenset({f"kl{options.platform.value}" if options.platform else options.toolchain.value}),
            "owner": frozenset({record.owner.lower()}),
            "method": frozenset({options.quantization.method} if has_method else ()),
        },
        {
            "name": frozenset(pieces(record.name)),
            "model": frozenset(pieces(record.intake.get("model_name") or record.name)),
        },
        {name: float(value) for name, value in numbers.items() if value is not None},
    )


def states(status: Status, error_code: str) -> frozenset[str]:
    """Of STATES, those that it has."""
    if status is Status.COMPLETED:
        return frozenset({"ended", "completed"})
    if status is Status.FAILED:
        return frozenset({"ended", "cancelled" if error_code == CANCELLED else "failed"})
    return frozenset({"running", status.value.lower()})


def verdict_word(record: JobRecord) -> str:
    """Of VERDICTS."""
    passed = record.stages[Stage.BIE.step].summary.get("passed")
    return "unmeasured" if passed is None else "passed" if passed else "below"


DIGEST_FIELDS = frozenset(
    {"status", "error", "finished_at", "tags", "name", "options", "intake", "owner", "created_at"}
    | {f"{stage.step}.summary" for stage in Stage}
)

"""Of a record's fields, those that its digest is made of; none of them changes while a stage runs."""
