"""The form of a new service as flat text fields, and the resource that they mean. Pure.

Parameters of an algorithm are fields "<algorithm>.<key>". Further parameters are lines of key=value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.joint_inference.hard_examples import load_algorithms, make
from app.joint_inference.hard_examples.base import BadParameter, UnknownAlgorithm
from app.joint_inference.model.resource import API_VERSION, KIND
from app.joint_inference.validation import validate
from app.kit.errors import ModelmillError
from app.kit.text.json_values import JsonObject
from app.kit.text.labels import BadLabels, labels_in, text_of
from app.kit.web.editor import Problems

Values = dict[str, str]
"""By field; "" for what belongs to none."""

DEFAULTS: Mapping[str, str] = {
    "name": "",
    "namespace": "default",
    "edge_node": "",
    "edge_selector": "",
    "edge_model": "",
    "cloud_node": "",
    "cloud_model": "",
    "algorithm": "IBT",
    "source": "",
    "max_upload_ratio": "",
    "edge_parameters": "",
    "cloud_parameters": "",
}
NEEDED = ("name", "edge_model", "cloud_node", "cloud_model")
FIELD_OF = {
    "$.metadata.name": "name",
    "$.metadata.namespace": "namespace",
    "$.spec.edgeWorker.model.name": "edge_model",
    "$.spec.edgeWorker.nodeName": "edge_node",
    "$.spec.edgeWorker.nodeSelector": "edge_selector",
    "$.spec.cloudWorker.model.name": "cloud_model",
    "$.spec.cloudWorker.nodeName": "cloud_node",
    "$.spec.edgeWorker.hardExampleAlgorithm.name": "algorithm",
    "$.spec.edgeWorker.hardExampleAlgorithm.parameters": "algorithm",
    "$.spec.edgeWorker.workerSpec.parameters": "edge_parameters",
    "$.spec.cloudWorker.workerSpec.parameters": "cloud_parameters",
}
OWN_FIELDS = ("source", "max_upload_ratio")
"""Parameters of the edge worker with a field of their own."""
EDGE_NAME, CLOUD_NAME = "edgeworker", "cloudworker"
FRAMEWORK = "onnxruntime"
VALUE_MAX = 40_000


def empty_values() -> Values:
    """Each algorithm's parameters at their defaults."""
    defaults = {f"{name}.{p.key}": p.default for name, entry in load_algorithms().items() for p in entry.parameters}
    return {**DEFAULTS, **defaults}


def read_sent_values(sent: Mapping[str, str]) -> Values:
    """The fields as sent; unknown fields are omitted, and one that was not sent has its default."""
    return {name: sent.get(name, default)[:VALUE_MAX].strip() for name, default in empty_values().items()}


def resource_of(values: Mapping[str, str]) -> tuple[JsonObject, Problems]:
    """The resource as far as it goes, and what is wrong with it."""
    problems: Problems = {name: "" for name in NEEDED if not values[name]}
    placement = _read_placement(values, problems)
    edge, cloud = (_parse_pairs(values[name], name, problems) for name in ("edge_parameters", "cloud_parameters"))
    for key in reversed(OWN_FIELDS):
        if values[key]:
            edge = [{"key": key, "value": values[key]}, *(pair for pair in edge if pair["key"] != key)]
    _check_budget(values["max_upload_ratio"], problems)
    algorithm = _read_algorithm(values, problems)
    resource = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": values["name"], "namespace": values["namespace"]},
        "spec": {
            "edgeWorker": {
                "name": EDGE_NAME,
                "model": {"name": values["edge_model"]},
                **placement,
                "hardExampleAlgorithm": algorithm,
                "workerSpec": _build_worker_spec(edge),
            },
            "cloudWorker": {
                "name": CLOUD_NAME,
                "model": {"name": values["cloud_model"]},
                "nodeName": values["cloud_node"],
                "workerSpec": _build_worker_spec(cloud),
            },
        },
    }
    if not problems:
        try:
            resource = validate(resource)
        except ModelmillError as error:
            problems |= problems_of(error)
    return resource, problems


def problems_of(error: ModelmillError) -> Problems:
    """Beside the field that each is about, with its JSON path where there is no such field."""
    problems: Problems = {}
    for one in error.detail.get("problems", ()):
        path, message = str(one["path"]), str(one["message"])
        field = next((name for place, name in FIELD_OF.items() if path == place or path.startswith(f"{place}[")), "")
        text = message if field else f"{path}: {message}"
        problems[field] = f"{problems[field]}\n{text}" if field in problems else text
    return problems or {"": error}


def values_of(resource: Any) -> Values | None:
    """The form that means this resource; None if the form has no field for something in it."""
    try:
        values = _read_values(validate(resource))
        back, problems = resource_of(values)
        return values if not problems and back == validate(resource) else None
    except (ModelmillError, KeyError, TypeError, AttributeError):
        return None


def _read_values(resource: Mapping[str, Any]) -> Values:
    edge, cloud = resource["spec"]["edgeWorker"], resource["spec"]["cloudWorker"]
    algorithm = edge["hardExampleAlgorithm"]
    pairs = edge["workerSpec"].get("parameters", [])
    own = {pair["key"]: pair["value"] for pair in pairs if pair["key"] in OWN_FIELDS}
    chosen = {f"{algorithm['name']}.{p['key']}": p["value"] for p in algorithm.get("parameters", ())}
    return {
        **empty_values(),
        **chosen,
        **own,
        "name": resource["metadata"]["name"],
        "namespace": resource["metadata"]["namespace"],
        "edge_node": edge.get("nodeName", ""),
        "edge_selector": text_of(edge.get("nodeSelector", {})),
        "edge_model": edge["model"]["name"],
        "cloud_node": cloud["nodeName"],
        "cloud_model": cloud["model"]["name"],
        "algorithm": algorithm["name"],
        "edge_parameters": _format_pairs([pair for pair in pairs if pair["key"] not in OWN_FIELDS]),
        "cloud_parameters": _format_pairs(cloud["workerSpec"].get("parameters", [])),
    }


def _read_placement(values: Mapping[str, str], problems: Problems) -> JsonObject:
    """Labels go before a node's name: who types some means them."""
    if not values["edge_selector"]:
        if not values["edge_node"]:
            problems["edge_node"] = ""
        return {"nodeName": values["edge_node"]}
    try:
        return {"nodeSelector": labels_in(values["edge_selector"])}
    except BadLabels as error:
        problems["edge_selector"] = f"{error.message} {error.hint}"
        return {"nodeName": values["edge_node"]}


def _format_pairs(pairs: list[Mapping[str, str]]) -> str:
    return "\n".join(f"{pair['key']}={pair['value']}" for pair in pairs)


def _build_worker_spec(parameters: list[dict[str, str]]) -> JsonObject:
    """Of the bundled worker."""
    return {
        "scriptDir": "",
        "scriptBootFile": "",
        "frameworkType": FRAMEWORK,
        "frameworkVersion": "",
        "parameters": parameters,
    }


def _parse_pairs(text: str, field: str, problems: Problems) -> list[dict[str, str]]:
    pairs = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        key, mark, value = line.partition("=")
        if not mark or not key.strip():
            problems[field] = f"Line {number} is no key=value: {line.strip()[:80]}"
        pairs.append({"key": key.strip(), "value": value.strip()})
    return pairs


def _check_budget(text: str, problems: Problems) -> None:
    if not text:
        return
    try:
        is_share = 0 <= float(text) <= 1
    except ValueError:
        is_share = False
    if not is_share:
        problems["max_upload_ratio"] = text[:40]


def _read_algorithm(values: Mapping[str, str], problems: Problems) -> JsonObject:
    """Parameters at their default are said, too: so the resource shows what decides."""
    name = values["algorithm"]
    entry = load_algorithms().get(name)
    keys = [parameter.key for parameter in entry.parameters] if entry else []
    chosen = {key: values[f"{name}.{key}"] for key in keys if values[f"{name}.{key}"]}
    try:
        make(name, chosen)
    except BadParameter as error:
        key = str(error.detail.get("key", ""))
        problems[f"{name}.{key}" if key in keys else "algorithm"] = error.message
    except UnknownAlgorithm as error:
        problems["algorithm"] = f"{error.message} {error.hint}"
    return {"name": name, "parameters": [{"key": key, "value": value} for key, value in chosen.items()]}
