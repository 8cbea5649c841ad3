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
    unchanged = {key: value for key, value in whole["metadata"].items() if key not in ("labels", "annotations")}
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {**unchanged, **about},
        "spec": fit["spec"],
        "status": whole["status"],
    }


def metadata_of(resource: Any) -> dict[str, Any]:
    metadata = resource.get("metadata") if isinstance(resource, dict) else None
    return metadata if isinstance(metadata, dict) else {}


def check_place(resource: Any, namespace: str | None, name: str) -> None:
    """Raises BadRequest where resource and path name different ones."""
    metadata = metadata_of(resource)
    if namespace is not None and metadata.get("namespace") not in (None, "", namespace):
        raise BadRequest("The namespace of the provided object does not match the namespace sent on the request.")
    if name and metadata.get("name") != name:
        name_text = str(metadata.get("name", ""))[:253]
        raise BadRequest(f"The name of the object ({name_text}) does not match the name on the URL ({name}).")


def check_uid(before: Service, resource: Any) -> None:
    """Raises ServiceChanged when another one has this name by now."""
    uid = metadata_of(resource).get("uid")
    if uid and uid != before.uid:
        raise ServiceChanged(f"Its uid is {before.uid}.", hint="There is another of this name now.")


def check_version(before: Service, resource: Any) -> None:
    version = metadata_of(resource).get("resourceVersion")
    if version and version != str(before.version):
        raise ServiceChanged("It has been changed meanwhile.", hint="Read it again.")
