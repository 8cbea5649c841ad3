"""JSON Patch (RFC 6902) of a resource. Pure."""

from __future__ import annotations

import json
from typing import Any

import jsonpatch
from jsonpointer import JsonPointerException

from app.kit.errors import BadInput, BadRequest

MAX_OPERATIONS = 1000
MAX_BYTES = 1 << 20
GROWS = "copy"
SHARE = {"manager": str, "operation": str, "time": str, "fieldsV1": dict}


def patched(resource: Any, operations: Any) -> Any:
    """The resource as it is then; it is not changed itself. Raises BadRequest for what is no patch, BadInput for one
    that does not fit what there is."""
    if not isinstance(operations, list) or not all(isinstance(one, dict) for one in operations):
        raise BadRequest("A JSON patch is a list of operations.")
    if len(operations) > MAX_OPERATIONS:
        raise BadRequest(f"A patch may have {MAX_OPERATIONS} operations.")
    found = resource
    try:
        for one in operations:
            found = jsonpatch.apply_patch(found, [one])
            if one.get("op") == GROWS and len(json.dumps(found)) > MAX_BYTES:
                raise BadInput(f"The patch makes more than {MAX_BYTES} bytes of it.")
    except jsonpatch.InvalidJsonPatch as error:
        raise BadRequest(f"This is no JSON patch: {error}.") from None
    except (jsonpatch.JsonPatchException, JsonPointerException) as error:
        raise BadInput(f"The patch does not fit the service: {error}.", hint="Read it again.") from None
    except (TypeError, ValueError, KeyError, AttributeError, IndexError) as error:
        raise BadRequest(f"This is no JSON patch: {type(error).__name__}: {error}.") from None
    return found


def checked_managed(managed: Any) -> list[Any]:
    """metadata.managedFields as a tool has rewritten them: kubectl does when it goes over to server-side apply. Raises
    BadInput."""
    for one in managed or ():
        if not isinstance(one, dict) or not all(isinstance(one.get(key), kind) for key, kind in SHARE.items()):
            raise BadInput("metadata.managedFields are to be a list of managers with their fields.")
        if not _is_tree(one["fieldsV1"]):
            raise BadInput("fieldsV1 of metadata.managedFields are to be objects in objects.")
    return list(managed or ())


def _is_tree(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_tree, value.values()))
