"""The CustomResourceDefinition of the JointInferenceService, from the requirement. Pure.

Three optional properties are added: hardExampleAlgorithm.parameters, rollout, and nodeSelector, which replaces nodeName
of the edge worker. `python -m ops.crd` writes the file.
"""

from __future__ import annotations

import json

from app.joint_inference.model.resource import GROUP, KIND, PLURAL, SHORT_NAMES, VERSION
from app.kit.text.json_values import JsonObject

_TEXT = {"type": "string"}
_COUNT = {"type": "integer"}
_TIME = {"type": "string", "format": "date-time"}


def _make_object(properties: JsonObject, *required: str) -> JsonObject:
    requirement = {"required": list(required)} if required else {}
    return {"type": "object", **requirement, "properties": properties}


def _list_of(item: JsonObject) -> JsonObject:
    return {"type": "array", "items": item}


_PAIR = {"key": _TEXT, "value": _TEXT}
_PARAMETERS = _list_of(_make_object(_PAIR, "key", "value"))
_LABELS = {"type": "object", "additionalProperties": _TEXT}
_NAMED = _make_object({"name": _TEXT}, "name")
_WORKER_SPEC = _make_object(
    {
        "scriptDir": _TEXT,
        "scriptBootFile": _TEXT,
        "frameworkType": _TEXT,
        "frameworkVersion": _TEXT,
        "parameters": _PARAMETERS,
    },
    "scriptDir",
    "scriptBootFile",
    "frameworkType",
    "frameworkVersion",
)
_ALGORITHM = _make_object({"name": _TEXT, "parameters": _PARAMETERS}, "name")
_ROLLOUT = _make_object(
    {
        "waves": _list_of(_TEXT),
        "soakSeconds": _COUNT,
        "minPictures": _COUNT,
        "maxErrors": _COUNT,
        "maxLatencyRatio": _TEXT,
        "minAgreement": _TEXT,
    }
)
_EDGE_WORKER = _make_object(
    {
        "name": _TEXT,
        "model": _NAMED,
        "nodeName": _TEXT,
        "nodeSelector": _LABELS,
        "rollout": _ROLLOUT,
        "hardExampleAlgorithm": _ALGORITHM,
        "workerSpec": _WORKER_SPEC,
    },
    "name",
    "model",
    "hardExampleAlgorithm",
    "workerSpec",
)
_CLOUD_WORKER = _make_object(
    {"name": _TEXT, "model": _NAMED, "nodeName": _TEXT, "workerSpec": _WORKER_SPEC},
    "name",
    "model",
    "nodeName",
    "workerSpec",
)
_CONDITION = _make_object(
    {
        "type": _TEXT,
        "status": _TEXT,
        "lastHeartbeatTime": _TIME,
        "lastTransitionTime": _TIME,
        "reason": _TEXT,
        "message": _TEXT,
    },
)

SPEC_SCHEMA: JsonObject = _make_object(
    {"edgeWorker": _EDGE_WORKER, "cloudWorker": _CLOUD_WORKER}, "edgeWorker", "cloudWorker"
)
STATUS_SCHEMA: JsonObject = _make_object(
    {
        "conditions": _list_of(_CONDITION),
        "startTime": _TIME,
        "active": _COUNT,
        "failed": _COUNT,
        "metrics": _list_of(_make_object(_PAIR)),
    },
)
SCHEMA: JsonObject = _make_object({"spec": SPEC_SCHEMA, "status": STATUS_SCHEMA})
"""The requirement's openAPIV3Schema."""

METADATA_SCHEMA: JsonObject = _make_object(
    {
        **dict.fromkeys(("name", "namespace", "uid", "resourceVersion"), _TEXT),
        "labels": _LABELS,
        "annotations": _LABELS,
        "generation": {"type": "integer", "format": "int64"},
        **dict.fromkeys(("creationTimestamp", "deletionTimestamp"), _TIME),
    }
)
RESOURCE_SCHEMA: JsonObject = _make_object(
    {"apiVersion": _TEXT, "kind": _TEXT, "metadata": METADATA_SCHEMA, **SCHEMA["properties"]},
    "apiVersion",
    "kind",
    "metadata",
    "spec",
)
"""A whole resource."""

PRINTER_COLUMNS: list[dict[str, str]] = [
    {
        "name": "status",
        "type": "string",
        "description": "The status of the jointinference service",
        "jsonPath": ".status.conditions[-1].type",
    },
    {
        "name": "active",
        "type": "integer",
        "description": "The number of active worker",
        "jsonPath": ".status.active",
    },
    {
        "name": "failed",
        "type": "integer",
        "description": "The number of failed worker",
        "jsonPath": ".status.failed",
    },
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
]


def crd() -> JsonObject:
    """Returns the whole definition, which the caller may change."""
    version = {
        "name": VERSION,
        "subresources": {"status": {}},
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": SCHEMA},
        "additionalPrinterColumns": PRINTER_COLUMNS,
    }
    names = {"kind": KIND, "plural": PLURAL, "shortNames": list(SHORT_NAMES)}
    whole = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {"group": GROUP, "names": names, "scope": "Namespaced", "versions": [version]},
    }
    document: JsonObject = json.loads(json.dumps(whole))  # no shared parts, which copy.deepcopy would keep shared
    return document


__all__ = ["METADATA_SCHEMA", "PRINTER_COLUMNS", "RESOURCE_SCHEMA", "SCHEMA", "SPEC_SCHEMA", "STATUS_SCHEMA", "crd"]
