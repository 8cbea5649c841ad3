"""Does what is sent agree with the path it is sent to, and with what is there? Pure."""

from __future__ import annotations

from typing import Any

from app.joint_inference.errors import ServiceChanged
from app.joint_inference.model.resource import API_VERSION, KIND, Service
from app.joint_inference.validation import validated
from app.kit.errors import BadRequest


def named_in_body(resource: Any) -> str:
    name = metadata_of(resource).get("name")
    return name if isinstance(name, str) else ""


def changed_to(before: Service, resource: Any) -> dict[str, Any]:
    """What it would be. Raises ServiceChanged, InvalidResource."""
    check_version(before, resource)
    fit = validated(resource, namespace=before.namespace)
    whole = before.to_resource()
    about = {key: fit["metadata"][key] for key in ("labels", "annotations") if fit["metadata"].get(key)}
    kept = {key: value for key, value in whole["metadata"].items() if key not in ("labels", "annotations")}
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {**kept, **about},
        "spec": fit["spec"],
        "status": whole["status"],
    }


def metadata_of(resource: Any) -> dict[str, Any]:
    found = resource.get("metadata") if isinstance(resource, dict) else None
    return found if isinstance(found, dict) else {}


def check_place(resource: Any, namespace: str | None, name: str) -> None:
    """Raises BadRequest where resource and path name different ones."""
    given = metadata_of(resource)
    if namespace is not None and given.get("namespace") not in (None, "", namespace):
        raise BadRequest("The namespace of the provided object does not match the namespace sent on the request.")
    if name and given.get("name") != name:
        said = str(given.get("name", ""))[:253]
        raise BadRequest(f"The name of the object ({said}) does not match the name on the URL ({name}).")


def check_uid(before: Service, resource: Any) -> None:
    """Raises ServiceChanged when another one has this name by now."""
    given = metadata_of(resource).get("uid")
    if given and given != before.uid:
        raise ServiceChanged(f"Its uid is {before.uid}.", hint="There is another of this name now.")


def check_version(before: Service, resource: Any) -> None:
    given = metadata_of(resource).get("resourceVersion")
    if given and given != str(before.version):
        raise ServiceChanged("It has been changed meanwhile.", hint="Read it again.")
