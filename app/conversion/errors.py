"""Errors of conversion, one class per cause. Messages are written where they are raised."""

from __future__ import annotations

from app.kit.errors import BadInput, Conflict, NotFound, TooLarge, TooMany
from app.kit.sandbox.errors import StageFailed


class JobNotFound(NotFound, code="JOB_NOT_FOUND"): ...


class JobFinished(Conflict, code="JOB_FINISHED"):
    """The job has already ended, so it cannot be cancelled (again)."""


class JobActive(Conflict, code="JOB_ACTIVE"):
    """The job has not ended yet, so it cannot be deleted."""


class TooManyJobs(TooMany, code="TOO_MANY_JOBS"):
    """As many jobs are waiting or running as may be at once: in all, or of this user. detail: retry_after_s, limit."""


class ToolchainUnserved(Conflict, code="TOOLCHAIN_UNSERVED", can_retry=True):
    """Workers of a stage live, and none of them has the toolchain that is asked for. detail: toolchain, stage."""


class ArtifactNotReady(NotFound, code="ARTIFACT_NOT_READY"): ...


class ResultNotFound(NotFound, code="RESULT_NOT_FOUND"):
    """The object store has nothing (any more) of this job, or it is another user's."""


class NotArchived(NotFound, code="NOT_ARCHIVED"):
    """The archive has no such job (any more), or it is another user's."""


class NoReceipts(NotFound, code="NO_RECEIPTS"):
    """This installation signs no receipts, for its secret key was never set."""


class ReceiptUnreadable(BadInput, code="RECEIPT_UNREADABLE"):
    """A file that was named as a receipt or as a key is none."""


class KeyNotFound(BadInput, code="KEY_NOT_FOUND"):
    """A model_key or quant_key that names no stored object, or none that a submission may use."""


# --- the model, at intake -------------------------------------------------------------------------
class NotOnnx(BadInput, code="MODEL_NOT_ONNX"): ...


class GitLfsPointer(BadInput, code="MODEL_IS_LFS_POINTER"): ...


class TruncatedModel(BadInput, code="MODEL_TRUNCATED"): ...


class ExternalWeights(BadInput, code="MODEL_EXTERNAL_WEIGHTS"): ...


class TooNewModel(BadInput, code="MODEL_TOO_NEW"):
    """IR version or opset is newer than the toolchain reads."""


class DynamicShape(BadInput, code="MODEL_DYNAMIC_SHAPE"): ...


class UnsupportedInput(BadInput, code="MODEL_UNSUPPORTED_INPUT"):
    """A graph input of a type or rank that cannot be calibrated."""


class ModelTooLarge(TooLarge, code="MODEL_TOO_LARGE"): ...


class BadModelArchive(BadInput, code="MODEL_BAD_ARCHIVE"):
    """A zip with a model in it that must not be unpacked, or holds several."""


# --- the reference pictures, at intake --------------------------------------------------------------
class BadArchive(BadInput, code="IMAGES_BAD_ARCHIVE"):
    """Not a zip, damaged, encrypted, or with entries that point outside (zip slip, symbolic links)."""


class BadLabels(BadInput, code="IMAGES_BAD_LABELS"):
    """What is said of the reference pictures cannot be read, or is of others."""


class ZipBomb(TooLarge, code="IMAGES_ZIP_BOMB"): ...


class SamplesTooLarge(TooLarge, code="IMAGES_TOO_LARGE"): ...


class NoSamples(BadInput, code="IMAGES_NONE"): ...


class DamagedSamples(BadInput, code="IMAGES_DAMAGED"):
    """Some samples cannot be read; they are named, and the rest is used only if the user allows it."""


class WrongSampleType(BadInput, code="IMAGES_WRONG_TYPE"): ...


# --- a stage, while it runs -----------------------------------------------------------------------
class WorkDiskFull(StageFailed, code="WORK_DISK_FULL"):
    """The disk under the work folder has no space left. detail: cause, what the stage itself had to say."""


class NotFinite(StageFailed, code="STAGE_NOT_FINITE"):
    """NaN or infinity came out of the model during calibration or checking."""


class ToolchainMissing(StageFailed, code="TOOLCHAIN_MISSING"): ...


class ToolchainFailed(StageFailed, code="TOOLCHAIN_FAILED"):
    """The vendor's tool reported a failure; detail carries its class and the matching log lines."""
