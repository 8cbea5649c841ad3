"""Keys in the object store. Under jobs/{job_id}/ the names are the requirement's."""

from __future__ import annotations

import re
from urllib.parse import quote

from app.conversion.model import Stage

UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
MODEL = "model.onnx"
IMAGES = "quant.zip"
MODEL_ENDING = ".onnx"
MODEL_ENDINGS = (MODEL_ENDING, ".tflite", ".pt2")
"""Extensions of files that are a complete model."""
OWNERS = "owners/"
JOBS = "jobs/"
DESCRIPTION = "job.json"
KEPT = "kept"
CACHE = "cache/"
ENTRY = "entry.json"
SHARED = ""
"""Instead of an owner: all owners."""
UPLOADING = "uploading/"
LAST_OUTPUT = f"out.{Stage.NEF.step}"
_INPUT_KEY = re.compile(rf"(?:uploads/(?P<upload>{UUID})|jobs/(?P<job>{UUID})/input)/(?:model\.onnx|quant\.zip)")
_UUID = re.compile(UUID)


def is_uuid4(text: str) -> bool:
    return _UUID.fullmatch(text) is not None


def upload(upload_id: str, name: str) -> str:
    return f"uploads/{upload_id}/{name}"


def uploading(owner: str, upload_id: str) -> str:
    """An empty object that marks the owner of an unfinished upload; with "" the prefix of all of the owner's."""
    return f"{UPLOADING}{quote(owner, safe='')}/{upload_id}"


def job(job_id: str) -> str:
    """Prefix of everything that belongs to a job."""
    return f"jobs/{job_id}/"


def input_(job_id: str, name: str) -> str:
    return f"jobs/{job_id}/input/{name}"


def request(job_id: str) -> str:
    """The submission, so that a job can be offered again after its record is gone."""
    return f"jobs/{job_id}/input/request.json"


def description(job_id: str) -> str:
    """The description of a finished job, written last: a job that has it is in the archive."""
    return f"jobs/{job_id}/{DESCRIPTION}"


def kept(job_id: str) -> str:
    """An empty object: the files of the job are kept for good."""
    return f"jobs/{job_id}/{KEPT}"


def device_results(job_id: str) -> str:
    """Prefix of what devices reported on the packs of a job."""
    return f"jobs/{job_id}/device-results/"


def result(job_id: str, stage: Stage) -> str:
    return f"jobs/{job_id}/output/result.{stage.step}"


def report(job_id: str, stage: Stage) -> str:
    return f"jobs/{job_id}/output/{stage.step}.json"


def extra_file(job_id: str, name: str) -> str:
    return f"jobs/{job_id}/output/{name}"


def log(job_id: str, stage: Stage) -> str:
    return f"jobs/{job_id}/logs/{stage.step}.log"


def stage_files(job_id: str, stage: Stage) -> tuple[str, ...]:
    """Prefixes of everything that a stage stores: its result, its report and further files, its log."""
    return result(job_id, stage), extra_file(job_id, f"{stage.step}."), log(job_id, stage)


def owned(owner: str, job_id: str) -> str:
    """An empty object that marks the owner of a job; with "" the prefix of all of the owner's."""
    return f"{OWNERS}{quote(owner, safe='')}/{job_id}"


def output(job_id: str, stage: Stage, name: str) -> str:
    """The key of a stage's artifact, including its log."""
    if name == f"out.{stage.step}":
        return result(job_id, stage)
    return log(job_id, stage) if name == f"{stage.step}.log" else extra_file(job_id, name)


def cached(owner: str, key: str) -> str:
    """Prefix of a stage's cache entry; no user's name starts with a plus sign here."""
    return f"{CACHE}{quote(owner, safe='') if owner else '+shared'}/{key}/"


def cached_by(job_id: str, key: str) -> str:
    """An empty object: the job has added this to the cache; with "" the prefix of all of its entries."""
    return f"jobs/{job_id}/cached/{key}"


def artifact_name(key: str) -> str | None:
    """The artifact name of the file with this key; None for other keys."""
    _, _, folder, name = key.split("/") if key.count("/") == 3 else ("", "", "", "")
    if folder == "output":
        return f"out.{name.removeprefix('result.')}" if name.startswith("result.") else name
    return name if folder == "logs" or (folder == "input" and name in (MODEL, IMAGES)) else None


def source_of(key: str) -> tuple[str, str] | None:
    """("upload" | "job", its id) of a key that may be the input of a submission; None for any other key."""
    match = _INPUT_KEY.fullmatch(key)
    if match is None:
        return None
    return ("upload", match["upload"]) if match["upload"] else ("job", match["job"])
