"""Sedna's spelling of the same resource, as an alias: what fits is translated, the rest is named and omitted. Pure.

Sedna is the descendant of the requirement: hardExampleMining is its hardExampleAlgorithm, and a pod template stands
where workerSpec does. Of the template the node's name and the containers' environment fit. Its image cannot be run
here, so the bundled worker is meant, and parameters of the image get the names of their equals.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import SplitResult, urlsplit

from app.joint_inference.errors import ModelUnfetched
from app.joint_inference.model.resource import API_VERSION, VERSION, Role, specification_of
from app.joint_inference.problems import Problem, refuse
from app.kit.text.json_values import JsonObject

SEDNA_GROUP = "sedna.io"
SEDNA = f"{SEDNA_GROUP}/{VERSION}"
MODEL, MODELS = "Model", "models"
"""The kind of Sedna's models, and their plural."""
BUNDLED = {"scriptDir": "", "scriptBootFile": "", "frameworkType": "", "frameworkVersion": ""}
NO_FOLDERS = "It writes no pictures into folders; the page shows the newest hard samples."
SEDNAS = {
    "video_url": "Name what it is to read as `source`.",
    "input_shape": "Name the size as `input_size`, width first, as 736x416.",
    "all_examples_inference_output": NO_FOLDERS,
    "hard_example_edge_inference_output": NO_FOLDERS,
    "hard_example_cloud_inference_output": NO_FOLDERS,
}
"""Parameters of Sedna's own examples, and what stands for them here."""
EQUALS = {
    Role.EDGE: {"video_url": "source", "input_shape": "input_size", "MINING_MODE": "mining_mode"},
    Role.CLOUD: {"input_shape": "input_size"},
}
"""The names here of Sedna's parameters with the same meaning, of each bundled worker."""
_SHAPE = re.compile(r"\s*(\d+)\s*,\s*(\d+)\s*")
"""Height and width."""


def is_sedna(resource: Mapping[str, Any]) -> bool:
    return bool(resource.get("apiVersion") == SEDNA)


@dataclass(frozen=True)
class SednaModel:
    """A Model of Sedna, which names the file of a model."""

    name: str
    url: str
    """Of the file, or its path."""
    format: str
    """onnx, pb, …; in lower case."""


def read_model(resource: Any) -> SednaModel | None:
    """Returns a Model; None for another resource.

    Raises:
        InvalidResource: It has no name, or names no file.
    """
    if not (isinstance(resource, dict) and is_sedna(resource) and resource.get("kind") == MODEL):
        return None
    name, url, kind = (
        _read_text(resource, *path) for path in (("metadata", "name"), ("spec", "url"), ("spec", "format"))
    )
    required = (("$.metadata.name", name), ("$.spec.url", url))
    refuse([Problem(path, "is missing") for path, value in required if not value], kind=MODEL)
    return SednaModel(name, url, kind.lower() or PurePosixPath(url.split("?")[0]).suffix.removeprefix("."))


def check_source(model: SednaModel) -> SplitResult:
    """Returns the URL of the file, which may be a path.

    Raises:
        ModelUnfetched: No such file can be registered, or fetched from there.
    """
    try:
        url = urlsplit(model.url)
    except ValueError as error:
        raise make_unfetched(model, f"has no valid URL: {error}") from error
    if model.format != "onnx":
        raise make_unfetched(model, f"has the format {model.format or '?'}, and models run as ONNX")
    if url.scheme not in ("", "file", "http", "https"):
        raise make_unfetched(model, f"cannot be fetched from {url.scheme}://")
    return url


def make_unfetched(model: SednaModel, problem: str) -> ModelUnfetched:
    hint = f"Register it: modelmill models add {model.name} --file model.onnx"
    message = f"The file of the model {model.name} {problem}"
    problems = [{"path": "$.spec.url", "message": f"{message}. {hint}"}]
    return ModelUnfetched(message, hint=hint, detail={"kind": MODEL, "problems": problems})


def describe_use(error: ModelUnfetched, version: int) -> str:
    """Returns what a model is that is registered, and whose file was not used."""
    return f"{error.message}; the registered version {version} is used"


def _read_text(value: Any, *path: str) -> str:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, str) else ""


def read_spelling(resource: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[str]]:
    """As from_sedna; a resource in the requirement's spelling is returned as it is."""
    return from_sedna(resource) if is_sedna(resource) else (resource, [])


def from_sedna(resource: Mapping[str, Any]) -> tuple[JsonObject, list[str]]:
    """In the requirement's spelling, still to be validated, and the fields that have no counterpart."""
    translated = {**resource, "apiVersion": API_VERSION}
    spec = resource.get("spec")
    if not isinstance(spec, dict):
        return translated, []
    metadata = resource.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    left_out: list[str] = []
    workers = {}
    for role in Role:
        side = f"{role.value}Worker"
        if isinstance(spec.get(side), dict):
            workers[side] = _convert_worker(role, spec[side], f"{name}-{role.value}", left_out)
    return {**translated, "spec": {**spec, **workers}}, left_out


def to_sedna(resource: Mapping[str, Any]) -> JsonObject:
    """Returns a valid resource in Sedna's spelling, for its tools. What Sedna does not have keeps its name here."""
    spec, name = resource["spec"], resource["metadata"]["name"]
    workers = {
        f"{role.value}Worker": _present_worker(spec[f"{role.value}Worker"], f"{name}-{role.value}") for role in Role
    }
    return {**resource, "apiVersion": SEDNA, "spec": {**spec, **workers}}


def _present_worker(worker: Mapping[str, Any], default_name: str) -> JsonObject:
    """One with a script of its own keeps its workerSpec: no template stands for it."""
    rest = dict(worker)
    fields: JsonObject = {"name": rest.pop("name")} if rest["name"] != default_name else {}
    rest.pop("name", None)
    if "hardExampleAlgorithm" in rest:
        fields["hardExampleMining"] = rest.pop("hardExampleAlgorithm")
    if not rest["workerSpec"]["scriptDir"]:
        parameters = rest.pop("workerSpec").get("parameters", ())
        env = [{"name": one["key"], "value": one["value"]} for one in parameters]
        node = {"nodeName": rest.pop("nodeName")} if "nodeName" in rest else {}
        fields["template"] = {"spec": {**node, "containers": [{"name": "worker", "env": env}]}}
    return {**fields, **rest}


def sedna_schema(spec: Mapping[str, Any]) -> JsonObject:
    """Returns the schema of Sedna's spec, which also has the fields of the requirement's, `spec`."""
    template = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    workers: dict[str, Any] = {
        side: {"type": "object", "properties": {**worker["properties"], "template": template}}
        for side, worker in spec["properties"].items()
    }
    edge = workers["edgeWorker"]["properties"]
    edge["hardExampleMining"] = edge["hardExampleAlgorithm"]
    return {**spec, "properties": workers}


def _convert_worker(role: Role, worker: Mapping[str, Any], name: str, left_out: list[str]) -> JsonObject:
    """A field of the requirement that is there wins over its counterpart."""
    fields: JsonObject = {"name": name}
    rest = dict(worker)
    if "hardExampleMining" in rest:
        fields["hardExampleAlgorithm"] = rest.pop("hardExampleMining")
    if isinstance(rest.get("template"), dict):
        fields |= _from_template(role, rest.pop("template"), left_out)
    return {**fields, **rest}


def _from_template(role: Role, template: Mapping[str, Any], left_out: list[str]) -> JsonObject:
    at = f"spec.{role.value}Worker.template"
    spec = template.get("spec")
    spec = spec if isinstance(spec, dict) else {}
    fields: JsonObject = {"nodeName": spec["nodeName"]} if "nodeName" in spec else {}
    left_out += [f"{at}.{key}" for key in template if key != "spec"]
    left_out += [f"{at}.spec.{key}" for key in spec if key not in ("nodeName", "containers")]
    parameters = []
    containers = spec.get("containers")
    for index, container in enumerate(containers if isinstance(containers, list) else ()):
        if isinstance(container, dict):
            path = f"{at}.spec.containers[{index}]"
            left_out += [f"{path}.{key}" for key in container if key not in ("env", "name")]
            parameters += _from_env(container.get("env"), f"{path}.env", left_out)
    return {**fields, "workerSpec": {**BUNDLED, "parameters": _map_parameters(role, parameters)}}


def _map_parameters(role: Role, parameters: Sequence[JsonObject]) -> list[JsonObject]:
    """Those with an equal get its name, unless that is given as well. Others, and shapes that are none, stay."""
    given = {parameter["key"] for parameter in parameters if isinstance(parameter["key"], str)}
    return [_map_parameter(EQUALS[role], parameter, given) for parameter in parameters]


def _map_parameter(equals: Mapping[str, str], parameter: JsonObject, given: set[str]) -> JsonObject:
    key, value = parameter["key"], parameter["value"]
    equal = equals.get(key) if isinstance(key, str) else None
    if equal is None or equal in given:
        return parameter
    if key != "input_shape":
        return {"key": equal, "value": value}
    shape = _SHAPE.fullmatch(value) if isinstance(value, str) else None
    return {"key": equal, "value": f"{shape[2]}x{shape[1]}"} if shape else parameter


def _from_env(env: Any, at: str, left_out: list[str]) -> list[JsonObject]:
    """valueFrom is a cluster's: there is nothing here to take it from."""
    parameters = []
    for index, entry in enumerate(env if isinstance(env, list) else ()):
        if isinstance(entry, dict) and "valueFrom" not in entry:
            parameters.append({"key": entry.get("name"), "value": entry.get("value", "")})
        else:
            left_out.append(f"{at}[{index}]")
    return parameters


def ignored_parameters(spec: Mapping[str, Any]) -> list[str]:
    """Returns what of a service's parameters the bundled workers do not read, a sentence each. A user's own script may
    read whatever it likes.

    Args:
        spec: a valid one.
    """
    specification = specification_of(spec)
    return [
        f"The bundled {worker.role} worker does not read the parameter {key!r}. {instead}"
        for worker in (specification.edge, specification.cloud)
        if worker.is_builtin
        for key, instead in SEDNAS.items()
        if key in worker.parameters
    ]
