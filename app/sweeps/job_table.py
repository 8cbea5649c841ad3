"""A table of selected jobs, from any sweep or none, with their measurements side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from app.conversion import object_keys
from app.conversion.model import JobRecord
from app.conversion.service.comparison import option_rows
from app.sweeps.model import BEFORE_VARIANT, RowAnswer, best_of
from app.sweeps.service import result_of

DIGEST_CHARS = 6
OPTIONS_SHOWN = 4


def rows_of(jobs: Sequence[JobRecord]) -> tuple[RowAnswer, ...]:
    """Returns the jobs in their order as rows of a table, with the best ones marked."""
    models = _name_models(jobs)
    rows = [
        RowAnswer(position, job.job_id, models[position], job.name or job.job_id[:8], **result_of(job), is_best=False)
        for position, job in enumerate(jobs)
    ]
    best = best_of(rows)
    return tuple(replace(row, is_best=row.position in best) for row in rows)


def differences(jobs: Sequence[JobRecord]) -> Mapping[int, str]:
    """Describes, by index, the first few options that differ between the jobs of a model."""
    of_model: dict[str, list[int]] = {}
    for position, job in enumerate(jobs):
        of_model.setdefault(_get_digest(job), []).append(position)
    texts: dict[int, str] = {}
    for positions in of_model.values():
        rows = option_rows([jobs[position].options for position in positions])
        for column, position in enumerate(positions):
            unused = "" if jobs[position].options.quantization.is_by_method else "quantization.method"
            values = [(row.name.rpartition(".")[2], row.values[column]) for row in rows if row.name != unused]
            texts_of_options = [
                f"{name} {_to_text(value)}" for name, value in values if value not in (None, "", [], {})
            ]
            texts[position] = ", ".join(texts_of_options[:OPTIONS_SHOWN])
    return {position: text for position, text in texts.items() if text}


def _name_models(jobs: Sequence[JobRecord]) -> list[str]:
    """Names each model after its oldest job, without what a sweep adds; if other models have the same name, with a part
    of its digest."""
    digests = [_get_digest(job) for job in jobs]
    names: dict[str, str] = {}
    for job, digest in sorted(zip(jobs, digests, strict=True), key=lambda pair: pair[0].created_at):
        names.setdefault(digest, job.name.partition(BEFORE_VARIANT)[0] or job.job_id[:8])
    shared = {name for name, count in Counter(names.values()).items() if count > 1}
    return [f"{names[one]} ({one[:DIGEST_CHARS]})" if names[one] in shared else names[one] for one in digests]


def _get_digest(job: JobRecord) -> str:
    """Returns the digest of its model; for a job without a known file, its own id."""
    return job.artifacts[object_keys.MODEL].sha256 if object_keys.MODEL in job.artifacts else job.job_id


def _to_text(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
