"""Small pictures of the worst samples: made when first asked for, in the sandbox, and kept beside the job's outputs."""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
import threading
from pathlib import Path
from weakref import WeakValueDictionary

from app.conversion import object_keys
from app.conversion.model import JobRecord
from app.conversion.service import Conversion
from app.conversion.service.quality.views import Quality
from app.kit.errors import ModelmillError
from app.kit.objects import ObjectMissing
from app.kit.sandbox.runner import Limits

MAKE = "app.conversion.intake.thumbnails:make_thumbnails"
MEMORY_BYTES = 2 << 30
MEDIA_TYPE = "image/webp"


class _Lock:
    """A lock that a weak dictionary can hold."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


_at_work: WeakValueDictionary[str, _Lock] = WeakValueDictionary()
"""By job id: a page asks for all pictures at once, and the first request makes them for all."""


def thumbnail(conversion: Conversion, record: JobRecord, quality: Quality, index: int) -> bytes | None:
    """WebP of quality.worst_samples[index]; None when that sample has no picture. record: checked to be the user's."""
    found = _kept(conversion, record, index)
    if found is not None or not 0 <= index < len(quality.worst_samples) or _is_made(conversion, record):
        return found
    with _at_work.setdefault(record.job_id, _Lock()).lock:
        if not _is_made(conversion, record):
            _make(conversion, record, [sample.name for sample in quality.worst_samples])
    return _kept(conversion, record, index)


def _key(record: JobRecord, name: str) -> str:
    return object_keys.extra_file(record.job_id, f"thumbs/{name}")


def _kept(conversion: Conversion, record: JobRecord, index: int) -> bytes | None:
    with contextlib.suppress(ObjectMissing):
        return b"".join(conversion.jobs.objects.read(_key(record, f"{index}.webp")))
    return None


def _is_made(conversion: Conversion, record: JobRecord) -> bool:
    with contextlib.suppress(ObjectMissing):
        conversion.jobs.objects.info(_key(record, "made.json"))
        return True
    return False


def _make(conversion: Conversion, record: JobRecord, names: list[str]) -> None:
    """All of them, and a note of it, so that samples without a picture are not tried again."""
    settings, objects = conversion.submissions.settings, conversion.jobs.objects
    settings.work.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder = Path(tempfile.mkdtemp(prefix="thumbs-", dir=settings.work))
    try:
        objects.get_file(object_keys.input_(record.job_id, object_keys.IMAGES), folder / object_keys.IMAGES)
        made = _run(conversion, folder, names)
        for place in made:
            objects.put_file(_key(record, f"{place}.webp"), folder / "into" / f"{place}.webp", content_type=MEDIA_TYPE)
        objects.put(_key(record, "made.json"), [json.dumps(made).encode()], content_type="application/json")
    except ObjectMissing:
        return  # the reference images were deleted meanwhile
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(conversion: Conversion, folder: Path, names: list[str]) -> list[int]:
    settings = conversion.submissions.settings
    request = {
        "images": str(folder / object_keys.IMAGES),
        "unpack_to": str(folder / "unpacked"),
        "into": str(folder / "into"),
        "names": names,
        "limits": {"max_images": settings.max_images, "unpacked_bytes": settings.max_unpacked_bytes},
    }
    limits = Limits(min(MEMORY_BYTES, settings.intake_memory_bytes), settings.intake_time_s, 1)
    try:
        finished = conversion.submissions.sandbox.run(MAKE, request, work_dir=folder, limits=limits)
    except ModelmillError:
        return []
    return [int(place) for place in finished.result["made"]]
