"""The CRD is the requirement's: compared field by field with what that says, written out here by hand."""

from __future__ import annotations

from typing import Any

import yaml

from app.joint_inference.model.crd import crd
from ops.crd import FILE, text

REQUIRED = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: jointinferenceservices.neptune.io
spec:
  group: neptune.io
  names:
    kind: JointInferenceService
    plural: jointinferenceservices
    shortNames:
      - jointinferenceservice
      - jis
  scope: Namespaced
  versions:
    - name: v1alpha1
      subresources:
        # status enables the status subresource.
        status: {}
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              required:
                - edgeWorker
                - cloudWorker
              properties:
                edgeWorker:
                  type: object
                  required:
                    - name
                    - model
                    - nodeName
                    - hardExampleAlgorithm
                    - workerSpec
                  properties:
                    name:
                      type: string
                    model:
                      type: object
                      required:
                        - name
                      properties:
                        name:
                          type: string
                    nodeName:
                      type: string
                    hardExampleAlgorithm:
                      type: object
                      required:
                        - name
                      properties:
                        name:
                          type: string
                    workerSpec:
                      type: object
                      required:
                        - scriptDir
                        - scriptBootFile
                        - frameworkType
                        - frameworkVersion
                      properties:
                        scriptDir:
                          type: string
                        scriptBootFile:
                          type: string
                        frameworkType:
                          type: string
                        frameworkVersion:
                          type: string
                        parameters:
                          type: array
                          items:
                            type: object
                            required:
                              - key
                              - value
                            properties:
                              key:
                                type: string
                              value:
                                type: string
                cloudWorker:
                  type: object
                  required:
                    - name
                    - model
                    - nodeName
                    - workerSpec
                  properties:
                    name:
                      type: string
                    model:
                      type: object
                      required:
                        - name
                      properties:
                        name:
                          type: string
                    nodeName:
                      type: string
                    workerSpec:
                      type: object
                      required:
                        - scriptDir
                        - scriptBootFile
                        - frameworkType
                        - frameworkVersion
                      properties:
                        scriptDir:
                          type: string
                        scriptBootFile:
                          type: string
                        frameworkType:
                          type: string
                        frameworkVersion:
                          type: string
                        parameters:
                          type: array
                          items:
                            type: object
                            required:
                              - key
                              - value
                            properties:
                              key:
                                type: string
                              value:
                                type: string
            status:
              type: object
              properties:
                conditions:
                  type: array
                  items:
                    type: object
                    properties:
                      type:
                        type: string
                      status:
                        type: string
                      lastHeartbeatTime:
                        type: string
                        format: date-time
                      lastTransitionTime:
                        type: string
                        format: date-time
                      reason:
                        type: string
                      message:
                        type: string
                startTime:
                  type: string
                  format: date-time
                active:
                  type: integer
                failed:
                  type: integer
                metrics:
                  type: array
                  items:
                    type: object
                    properties:
                      key:
                        type: string
                      value:
                        type: string
      additionalPrinterColumns:
        - name: status
          type: string
          description: The status of the jointinference service
          jsonPath: ".status.conditions[-1].type"
        - name: active
          type: integer
          description: The number of active worker
          jsonPath: ".status.active"
        - name: failed
          type: integer
          description: The number of failed worker
          jsonPath: ".status.failed"
        - name: Age
          type: date
          jsonPath: .metadata.creationTimestamp
"""
ADDED = ("spec", "edgeWorker", "hardExampleAlgorithm")
EDGE = ("spec", "edgeWorker")
"""The one place where a property is added: parameters of the algorithm, as a worker's are."""


def test_the_crd_is_the_required_one_field_by_field() -> None:
    made = crd()
    added = _properties(made, ADDED)
    worker_spec = _properties(made, ("spec", "edgeWorker", "workerSpec"))
    assert added.pop("parameters") == worker_spec["parameters"]
    edge, needed = _properties(made, EDGE), _at(made, EDGE)["required"]
    assert {edge.pop("nodeSelector")["type"], edge.pop("rollout")["type"]} == {"object"}
    needed.insert(needed.index("hardExampleAlgorithm"), "nodeName")  # which nodeSelector may replace
    assert dict(_leaves(made)) == dict(_leaves(yaml.safe_load(REQUIRED)))


def test_what_is_added_need_not_be_given() -> None:
    algorithm = _at(crd(), ADDED)
    assert algorithm["required"] == ["name"]
    assert not {"nodeSelector", "rollout"} & set(_at(crd(), EDGE)["required"])


def test_the_file_for_clusters_is_what_the_program_says() -> None:
    assert FILE.read_text() == text(), "run python -m ops.crd"
    assert yaml.safe_load(FILE.read_text()) == crd()


def test_who_changes_the_crd_they_were_given_changes_nobody_elses() -> None:
    mine = crd()
    _properties(mine, ("spec", "edgeWorker"))["name"]["type"] = "integer"
    assert _properties(mine, ("spec", "cloudWorker"))["name"]["type"] == "string"
    assert _properties(crd(), ("spec", "edgeWorker"))["name"]["type"] == "string"


def _at(node: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    schema = node["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for part in path:
        schema = schema["properties"][part]
    return dict(schema)


def _properties(schema: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    properties: dict[str, Any] = _at(schema, path)["properties"]
    return properties


def _leaves(value: Any, path: str = "") -> Any:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}")
    elif isinstance(value, list):
        for at, item in enumerate(value):
            yield from _leaves(item, f"{path}[{at}]")
    else:
        yield path, value
