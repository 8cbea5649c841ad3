"""Errors of conversion, one class per cause. Messages are written where they are raised."""

from __future__ import annotations

from app.kit.errors import BadInput, Conflict, NotFound, TooLarge, TooMany
from app.kit.sandbox.errors import StageFailed


class JobNotFound(NotFound):
    code = "JOB_NOT_FOUND"


class JobFinished(Conflict):
    """The job has already ended, so it cannot be cancelled (again)."""

    code = "JOB_FINISHED"


class JobActive(Conflict):
    """The job has not ended yet, so it cannot be deleted."""

    code = "JOB_ACTIVE"


class TooManyJobs(TooMany):
    """As many jobs are waiting or running as may be at once: in all, or of this user. detail: retry_after_s, limit."""

    code = "TOO_MANY_JOBS"


class ToolchainUnserved(Conflict):
    """Workers of a stage live, and none of them has the toolchain that is asked for. detail: toolchain, stage."""

    code = "TOOLCHAIN_UNSERVED"
    can_retry = True


class ArtifactNotReady(NotFound):
    code = "ARTIFACT_NOT_READY"


class ResultNotFound(NotFound):
    """The object store has nothing (any more) of this job, or it is another user's."""

    code = "RESULT_NOT_FOUND"


class NotArchived(NotFound):
    """The archive has no such job (any more), or it is another user's."""

    code = "NOT_ARCHIVED"


class NoReceipts(NotFound):
    """This installation signs no receipts, for its secret key was never set."""

    code = "NO_RECEIPTS"


class ReceiptUnreadable(BadInput):
    """A file that was named as a receipt or as a key is none."""

    code = "RECEIPT_UNREADABLE"


class KeyNotFound(BadInput):
    """A model_key or quant_key that names no stored object, or none that a submission may use."""

    code = "KEY_NOT_FOUND"


# --- the model, at intake -------------------------------------------------------------------------
class NotOnnx(BadInput):
    code = "MODEL_NOT_ONNX"


class GitLfsPointer(BadInput):
    code = "MODEL_IS_LFS_POINTER"


class TruncatedModel(BadInput):
    code = "MODEL_TRUNCATED"


class ExternalWeights(BadInput):
    code = "MODEL_EXTERNAL_WEIGHTS"


class TooNewModel(BadInput):
    """IR version or opset is newer than the toolchain reads."""

    code = "MODEL_TOO_NEW"


class DynamicShape(BadInput):
    code = "MODEL_DYNAMIC_SHAPE"


class UnsupportedInput(BadInput):
    """A graph input of a type or rank that cannot be calibrated."""

    code = "MODEL_UNSUPPORTED_INPUT"


class ModelTooLarge(TooLarge):
    code = "MODEL_TOO_LARGE"


class BadModelArchive(BadInput):
    """A zip with a model in it that must not be unpacked, or holds several."""

    code = "MODEL_BAD_ARCHIVE"


# --- the reference pictures, at intake --------------------------------------------------------------
class BadArchive(BadInput):
    """Not a zip, damaged, encrypted, or with entries that point outside (zip slip, symbolic links)."""

    code = "IMAGES_BAD_ARCHIVE"


class BadLabels(BadInput):
    """What is said of the reference pictures cannot be read, or is of others."""

    code = "IMAGES_BAD_LABELS"


class ZipBomb(TooLarge):
    code = "IMAGES_ZIP_BOMB"


class SamplesTooLarge(TooLarge):
    code = "IMAGES_TOO_LARGE"


class NoSamples(BadInput):
    code = "IMAGES_NONE"


class DamagedSamples(BadInput):
    """Some samples cannot be read; they are named, and the rest is used only if the user allows it."""

    code = "IMAGES_DAMAGED"


class WrongSampleType(BadInput):
    code = "IMAGES_WRONG_TYPE"


# --- a stage, while it runs -----------------------------------------------------------------------
class WorkDiskFull(StageFailed):
    """The disk under the work folder has no space left. detail: cause, what the stage itself had to say."""

    code = "WORK_DISK_FULL"


class NotFinite(StageFailed):
    """NaN or infinity came out of the model during calibration or checking."""

    code = "STAGE_NOT_FINITE"


class ToolchainMissing(StageFailed):
    code = "TOOLCHAIN_MISSING"


class ToolchainFailed(StageFailed):
    """The vendor's tool reported a failure; detail carries its class and the matching log lines."""

    code = "TOOLCHAIN_FAILED"
