"""Thumbnails of the worst samples: computed on first use in the sandbox, and stored beside the job's outputs."""

from __future__ import annotations

import contextlib
from pathlib import Path

from app.conversion import object_keys
from app.conversion.intake.entry_points import MAKE_THUMBNAILS, ThumbnailsRequest
from app.conversion.model import JobRecord
from app.conversion.service import Conversion
from app.conversion.service.quality.views import Quality
from app.kit.errors import ModelmillError
from app.kit.objects import ObjectMissing
from app.kit.objects.content import find_content, put_json
from app.kit.process.keyed_locks import KeyedLocks

MEMORY_BYTES = 2 << 30
MEDIA_TYPE = "image/webp"


_at_work = KeyedLocks()
"""By job id: a page asks for all pictures at once, and the first request makes them for all."""


def thumbnail(conversion: Conversion, record: JobRecord, quality: Quality, index: int) -> bytes | None:
    """WebP of quality.worst_samples[index]; None when that sample has no picture.

    Args:
        record: Already checked to be the user's.
    """
    stored = _load_stored(conversion, record, index)
    if stored is not None or not 0 <= index < len(quality.worst_samples) or _is_made(conversion, record):
        return stored
    with _at_work.of(record.job_id):
        if not _is_made(conversion, record):
            _make(conversion, record, [sample.name for sample in quality.worst_samples])
    return _load_stored(conversion, record, index)


def _build_key(record: JobRecord, name: str) -> str:
    return object_keys.extra_file(record.job_id, f"thumbs/{name}")


def _load_stored(conversion: Conversion, record: JobRecord, index: int) -> bytes | None:
    return find_content(conversion.jobs.objects, _build_key(record, f"{index}.webp"))


def _is_made(conversion: Conversion, record: JobRecord) -> bool:
    with contextlib.suppress(ObjectMissing):
        conversion.jobs.objects.info(_build_key(record, "made.json"))
        return True
    return False


def _make(conversion: Conversion, record: JobRecord, names: list[str]) -> None:
    """All of them, and a note of it, so that samples without a picture are not tried again."""
    objects = conversion.jobs.objects
    with conversion.uploads.intake.folder("thumbs-") as folder, contextlib.suppress(ObjectMissing):
        # They are missing when the reference pictures were deleted meanwhile.
        objects.get_file(object_keys.input_(record.job_id, object_keys.IMAGES), folder / object_keys.IMAGES)
        places = _run(conversion, folder, names)
        for place in places:
            objects.put_file(
                _build_key(record, f"{place}.webp"), folder / "into" / f"{place}.webp", content_type=MEDIA_TYPE
            )
        put_json(objects, _build_key(record, "made.json"), places)


def _run(conversion: Conversion, folder: Path, names: list[str]) -> list[int]:
    intake = conversion.uploads.intake
    request: ThumbnailsRequest = {**intake.samples_in(folder), "into": str(folder / "into"), "names": names}
    try:
        result = intake.run(MAKE_THUMBNAILS, request, folder, memory_bytes=MEMORY_BYTES)
    except ModelmillError:
        return []
    return [int(place) for place in result["made"]]  # they name files
