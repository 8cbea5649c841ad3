"""An OpenAPI 3.0 document as one of version 2 (Swagger). Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from app.kit.text.json_values import JsonObject

JSON = "application/json"
METHODS = ("get", "put", "post", "delete", "patch")


def to_version_2(document: Mapping[str, Any]) -> JsonObject:
    """Converts what the Kubernetes-shaped API describes: bodies and answers in JSON, and parameters that are texts.

    Args:
        document: OpenAPI 3.0, with no keyword of JSON Schema that version 2 lacks.
    """
    text = json.dumps(document).replace("#/components/schemas/", "#/definitions/")
    whole = json.loads(text)
    return {
        "swagger": "2.0",
        "info": whole["info"],
        "consumes": [JSON],
        "produces": [JSON],
        "paths": {path: _convert_path(item) for path, item in whole["paths"].items()},
        "definitions": whole["components"]["schemas"],
    }


def _convert_path(item: Mapping[str, Any]) -> JsonObject:
    shared = [_convert_parameter(one) for one in item.get("parameters", ())]
    operations = {method: _convert_operation(item[method]) for method in METHODS if method in item}
    return {"parameters": shared, **operations}


def _convert_operation(operation: Mapping[str, Any]) -> JsonObject:
    parameters = [_convert_parameter(one) for one in operation["parameters"]]
    if "requestBody" in operation:
        schema = operation["requestBody"]["content"][JSON]["schema"]
        parameters.append({"name": "body", "in": "body", "required": True, "schema": schema})
    responses = {
        status: {"description": answer["description"], "schema": answer["content"][JSON]["schema"]}
        for status, answer in operation["responses"].items()
    }
    rest = {key: value for key, value in operation.items() if key != "requestBody"}
    return {**rest, "parameters": parameters, "responses": responses}


def _convert_parameter(parameter: Mapping[str, Any]) -> JsonObject:
    return {**{key: value for key, value in parameter.items() if key != "schema"}, **parameter["schema"]}
