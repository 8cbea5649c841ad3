"""Errors of the model registry."""

from __future__ import annotations

from app.kit.errors import BadInput, Conflict, NotFound, Unavailable


class ModelNotFound(NotFound, code="MODEL_NOT_FOUND"): ...


class ModelExists(Conflict, code="MODEL_EXISTS"):
    """Its user has another of this name."""


class ModelInUse(Conflict, code="MODEL_IN_USE"):
    """Something that runs needs it."""


class BadModelName(BadInput, code="MODEL_NAME_INVALID"): ...


class TagNotFound(NotFound, code="MODEL_TAG_NOT_FOUND"): ...


class BadTag(BadInput, code="MODEL_TAG_INVALID"): ...


class BadLabels(BadInput, code="MODEL_LABELS_INVALID"): ...


class FilesBusy(Unavailable, code="MODEL_FILES_BUSY"):
    """Others remove and add the same files again and again."""
