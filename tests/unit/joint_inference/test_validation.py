"""What is no JointInferenceService is refused, and each problem is named by its JSON path."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.joint_inference.documents import parse_document, parse_documents
from app.joint_inference.errors import InvalidResource
from app.joint_inference.model.resource import specification_of
from app.joint_inference.sedna import to_sedna
from app.joint_inference.validation import advice, validate, validate_status, warnings_of
from app.kit.errors import TooLarge
from tests.harness.joint.resources import SAMPLE, SEDNA, sample

_WORKER_SPEC = ("scriptDir", "scriptBootFile", "frameworkType", "frameworkVersion")
_PARAMETER = "workerSpec.parameters[0]"
REQUIRED = [
    "edgeWorker",
    "cloudWorker",
    *(f"edgeWorker.{name}" for name in ("name", "model", "nodeName", "hardExampleAlgorithm", "workerSpec")),
    "edgeWorker.model.name",
    "edgeWorker.hardExampleAlgorithm.name",
    *(f"edgeWorker.workerSpec.{name}" for name in _WORKER_SPEC),
    f"edgeWorker.{_PARAMETER}.key",
    f"edgeWorker.{_PARAMETER}.value",
    *(f"cloudWorker.{name}" for name in ("name", "model", "nodeName", "workerSpec")),
    "cloudWorker.model.name",
    *(f"cloudWorker.workerSpec.{name}" for name in _WORKER_SPEC),
    f"cloudWorker.{_PARAMETER}.key",
    f"cloudWorker.{_PARAMETER}.value",
]
"""Written from the requirement's lists of what must be there."""
WRONG: list[tuple[str, Any]] = [
    *((path, 7) for path in REQUIRED),
    *((path, None) for path in REQUIRED),
    ("edgeWorker.workerSpec.parameters", {"nms_threshold": "0.6"}),
    ("cloudWorker.workerSpec.parameters", "0.6"),
    ("edgeWorker.workerSpec.parameters", None),
    ("edgeWorker.workerSpec.parameters[0]", "nms_threshold=0.6"),
    ("edgeWorker.hardExampleAlgorithm.parameters", "0.6"),
    ("edgeWorker.workerSpec.frameworkVersion", True),
    ("cloudWorker.workerSpec.parameters[0].value", ["0.6"]),
]


def without(path: str) -> dict[str, Any]:
    resource = sample()
    *before, last = _parts(path)
    del _inside(resource["spec"], before)[last]
    return resource


def having(path: str, value: Any) -> dict[str, Any]:
    """A path below spec, unless it begins with metadata."""
    resource = sample()
    *before, last = _parts(path)
    _inside(resource if path.startswith("metadata") else resource["spec"], before)[last] = value
    return resource


def problems(resource: Any, **options: Any) -> dict[str, str]:
    with pytest.raises(InvalidResource) as caught:
        validate(resource, **options)
    assert caught.value.message.startswith(caught.value.detail["problems"][0]["path"])
    return {problem["path"]: problem["message"] for problem in caught.value.detail["problems"]}


def test_the_sample_is_taken_as_it_is_and_what_came_out_once_more() -> None:
    checked = validate(sample())
    assert checked == sample()
    assert validate(checked) == checked
    assert warnings_of(checked) == []


def test_a_framework_version_that_never_was_is_kept_and_not_looked_up() -> None:
    assert specification_of(validate(sample())["spec"]).edge.framework_version == "1.18"


def test_there_are_as_many_required_fields_as_the_requirement_lists() -> None:
    assert len(REQUIRED) == 26 == len(set(REQUIRED))


@pytest.mark.parametrize("path", REQUIRED)
def test_a_missing_field_is_named_and_nothing_else(path: str) -> None:
    assert problems(without(path)) == {f"$.spec.{path}": "is missing"}


@pytest.mark.parametrize(("path", "value"), WRONG, ids=[f"{path}={value}" for path, value in WRONG])
def test_a_field_of_the_wrong_type_is_named_and_nothing_else(path: str, value: Any) -> None:
    fields = problems(having(path, value))
    assert list(fields) == [f"$.spec.{path}"]
    assert fields[f"$.spec.{path}"].startswith("must be ")


def test_a_version_that_was_not_put_in_quotes_is_told_so() -> None:
    document = parse_document(SAMPLE.read_text().replace('"1.18"', "1.18"))
    assert problems(document)["$.spec.edgeWorker.workerSpec.frameworkVersion"].endswith("put it in quotes")


def test_all_problems_are_named_at_once() -> None:
    resource = without("edgeWorker.model.name")
    resource["kind"] = "FederatedLearningJob"
    resource["metadata"]["name"] = "No Name"
    del resource["spec"]["cloudWorker"]["nodeName"]
    assert set(problems(resource)) == {
        "$.kind",
        "$.metadata.name",
        "$.spec.edgeWorker.model.name",
        "$.spec.cloudWorker.nodeName",
    }


@pytest.mark.parametrize("field", ["apiVersion", "kind", "spec"])
def test_a_missing_head_is_named(field: str) -> None:
    resource = sample()
    del resource[field]
    assert problems(resource) == {f"$.{field}": "is missing"}


@pytest.mark.parametrize(
    ("field", "value"),
    [("apiVersion", "neptune.io/v1"), ("apiVersion", 1), ("kind", "Pod"), ("kind", ["JointInferenceService"])],
)
def test_another_kind_or_version_is_refused(field: str, value: Any) -> None:
    assert list(problems({**sample(), field: value})) == [f"$.{field}"]


@pytest.mark.parametrize(
    "name",
    ["", "Helmet", "-a", "a-", "a..b", "a_b", "x" * 254, "é", "a/b", "a" * 64, None, 5, {}, "a\n", "a\0"],
)
def test_a_name_that_kubernetes_would_not_take_is_refused(name: Any) -> None:
    assert list(problems(having("metadata.name", name))) == ["$.metadata.name"]


@pytest.mark.parametrize("name", ["a", "helmet-detection-demo", "a.b.c", "0", ".".join(["a" * 63] * 3)])
def test_a_name_that_kubernetes_takes_is_taken(name: str) -> None:
    assert validate(having("metadata.name", name))["metadata"]["name"] == name


@pytest.mark.parametrize("namespace", ["a.b", "A", "x" * 64, 3, [], "a/b"])
def test_a_namespace_that_kubernetes_would_not_take_is_refused(namespace: Any) -> None:
    assert list(problems(having("metadata.namespace", namespace))) == ["$.metadata.namespace"]


def test_without_a_namespace_it_is_that_of_the_path_or_default() -> None:
    resource = sample()
    del resource["metadata"]["namespace"]
    assert validate(resource)["metadata"]["namespace"] == "default"
    assert validate(resource, namespace="shop")["metadata"]["namespace"] == "shop"


def test_another_namespace_than_that_of_the_path_is_refused() -> None:
    assert list(problems(sample(), namespace="shop")) == ["$.metadata.namespace"]


@pytest.mark.parametrize(
    ("field", "value", "path"),
    [
        ("labels", {"app": 1}, "$.metadata.labels.app"),
        ("labels", ["app"], "$.metadata.labels"),
        ("labels", {"a/b/c": "x"}, "$.metadata.labels['a/b/c']"),
        ("labels", {"app": "x" * 64}, "$.metadata.labels.app"),
        ("labels", {"app": "-x"}, "$.metadata.labels.app"),
        ("labels", {f"l{i}": "" for i in range(65)}, "$.metadata.labels"),
        ("annotations", {"note": None}, "$.metadata.annotations.note"),
        ("annotations", {"note": "x" * (256 * 1024)}, "$.metadata.annotations"),
        ("annotations", {" ": "x"}, "$.metadata.annotations[' ']"),
        ("annotations", {"note": "\0"}, "$.metadata.annotations.note"),
        ("annotations", {"note": "\ud800"}, "$.metadata.annotations.note"),
        ("resourceVersion", 5, "$.metadata.resourceVersion"),
    ],
)
def test_labels_and_annotations_are_short_texts_under_proper_keys(field: str, value: Any, path: str) -> None:
    assert list(problems(having(f"metadata.{field}", value))) == [path]


def test_labels_and_annotations_are_kept() -> None:
    resource = sample()
    about = {"labels": {"app.kubernetes.io/name": "helmet", "empty": ""}, "annotations": {"note": "any text, 任何文字"}}
    resource["metadata"] |= about
    assert validate(resource)["metadata"] == resource["metadata"]


@pytest.mark.parametrize(
    "path",
    [
        "edgeWorker.model.name",
        "cloudWorker.model.name",
        "edgeWorker.nodeName",
        "cloudWorker.nodeName",
        "edgeWorker.hardExampleAlgorithm.name",
        "edgeWorker.name",
    ],
)
def test_what_names_something_is_not_empty(path: str) -> None:
    assert list(problems(having(path, ""))) == [f"$.spec.{path}"]


@pytest.mark.parametrize("name", ["../etc", "a b", "a/b", ".", "-a", "x" * 254])
def test_a_worker_has_a_name_that_a_path_can_have(name: str) -> None:
    assert list(problems(having("edgeWorker.name", name))) == ["$.spec.edgeWorker.name"]


def test_the_workers_have_different_names() -> None:
    assert list(problems(having("cloudWorker.name", "edgeworker"))) == ["$.spec.cloudWorker.name"]


def test_without_a_script_the_bundled_worker_is_meant() -> None:
    resource = having("edgeWorker.workerSpec.scriptDir", "")
    assert specification_of(validate(resource)["spec"]).edge.is_builtin


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("edgeWorker.workerSpec.parameters[0].value", "x" * (32 * 1024 + 1)),
        ("edgeWorker.workerSpec.parameters[0].value", "a\0b"),
        ("edgeWorker.workerSpec.parameters[0].key", "\udc00"),
        ("edgeWorker.workerSpec.parameters", [{"key": "a", "value": "b"}] * 501),
    ],
)
def test_what_no_database_or_environment_takes_is_refused(path: str, value: Any) -> None:
    assert list(problems(having(path, value))) == [f"$.spec.{path}"]


def test_unknown_fields_are_left_out_and_named() -> None:
    resource = having("edgeWorker.replicas", 3)
    resource["spec"]["dataset"] = {"name": "helmets"}
    resource["spec"]["edgeWorker"]["workerSpec"]["parameters"][0]["unit"] = "px"
    assert validate(resource) == sample()
    assert sorted(warnings_of(resource)) == [
        "spec.dataset",
        "spec.edgeWorker.replicas",
        "spec.edgeWorker.workerSpec.parameters[0].unit",
    ]


def test_a_status_that_comes_along_is_not_looked_at() -> None:
    assert validate({**sample(), "status": "fine"}) == sample()


def test_a_resource_nested_without_end_is_refused() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    assert list(problems(having("edgeWorker.name", deep))) == ["$"]
    while deep:  # Python would free it by recursion
        deep = deep.pop()


def test_parameters_of_the_algorithm_are_taken_and_checked() -> None:
    resource = having("edgeWorker.hardExampleAlgorithm.parameters", [{"key": "threshold_img", "value": "0.9"}])
    specification = specification_of(validate(resource)["spec"])
    assert specification.hard_example_parameters == {"nms_threshold": "0.6", "threshold_img": "0.9"}
    del resource["spec"]["edgeWorker"]["hardExampleAlgorithm"]["parameters"][0]["value"]
    assert list(problems(resource)) == ["$.spec.edgeWorker.hardExampleAlgorithm.parameters[0].value"]


# --- the status ---


def test_a_status_is_checked_where_it_is_written() -> None:
    status = {
        "conditions": [{"type": "Running", "status": "True", "lastHeartbeatTime": "2020-11-03T08:39:22.517Z"}],
        "startTime": "2020-11-03T08:39:22Z",
        "active": 2,
        "failed": 0,
        "metrics": [{"key": "inferenceNumber", "value": "1000"}],
    }
    assert validate_status({**status, "phase": "x"}) == status


@pytest.mark.parametrize(
    ("status", "path"),
    [
        ({"active": "2"}, "$.status.active"),
        ({"failed": True}, "$.status.failed"),
        ({"metrics": [{"key": "n", "value": 1}]}, "$.status.metrics[0].value"),
        ({"conditions": {"type": "Running"}}, "$.status.conditions"),
        ({"startTime": "yesterday"}, "$.status.startTime"),
        ({"conditions": [{"lastTransitionTime": "2020-11-03"}]}, "$.status.conditions[0].lastTransitionTime"),
        ([], "$.status"),
        (None, "$.status"),
    ],
)
def test_a_status_of_the_wrong_type_is_refused(status: Any, path: str) -> None:
    with pytest.raises(InvalidResource) as caught:
        validate_status(status)
    assert [problem["path"] for problem in caught.value.detail["problems"]] == [path]


# --- Sedna's spelling ---


def test_sednas_spelling_is_an_alias() -> None:
    resource = parse_document(SEDNA)
    checked = validate(resource)
    read = specification_of(checked["spec"])
    assert (checked["apiVersion"], read.hard_example) == ("neptune.io/v1alpha1", "IBT")
    assert read.hard_example_parameters == {"input_size": "736x416", "threshold_img": "0.9"}
    assert (read.edge.node, read.cloud.node, read.edge.model, read.cloud.model) == ("edge0", "cloud0", "small", "big")
    assert (read.edge.name, read.cloud.name) == ("helmet-detection-edge", "helmet-detection-cloud")
    assert read.edge.is_builtin
    assert read.cloud.parameters == {"input_size": "544x544"}
    assert warnings_of(resource) == [
        "spec.edgeWorker.template.spec.dnsPolicy",
        "spec.edgeWorker.template.spec.containers[0].image",
        "spec.edgeWorker.template.spec.containers[0].env[1]",
    ]


def test_a_service_in_sednas_spelling_is_the_same_service() -> None:
    for resource in (parse_document(SEDNA), sample()):
        spec = validate(resource)["spec"]
        of_sedna = to_sedna(validate(resource))
        assert of_sedna["apiVersion"] == "sedna.io/v1alpha1"
        assert (validate(of_sedna)["spec"], warnings_of(of_sedna)) == (spec, [])
    assert of_sedna["spec"]["edgeWorker"]["workerSpec"] == spec["edgeWorker"]["workerSpec"], "a script of its own"


HELMET_EXAMPLE = [
    {"name": "input_shape", "value": "416,736"},
    {"name": "video_url", "value": "rtsp://localhost/video"},
    {"name": "MINING_MODE", "value": "mining-then-inference"},
    {"name": "all_examples_inference_output", "value": "/data/output"},
]
"""Environment of the edge worker, as Sedna's examples have it."""


def _sedna_with(*env: dict[str, str]) -> Any:
    resource = parse_document(SEDNA)
    resource["spec"]["edgeWorker"]["template"]["spec"]["containers"][0]["env"] = list(env)
    return resource


def test_sednas_parameters_get_the_names_of_their_equals_here() -> None:
    resource = _sedna_with(*HELMET_EXAMPLE)
    edge = specification_of(validate(resource)["spec"]).edge
    assert edge.parameters == {
        "input_size": "736x416",
        "source": "rtsp://localhost/video",
        "mining_mode": "mining-then-inference",
        "all_examples_inference_output": "/data/output",
    }
    assert [remark for remark in advice(resource) if "does not read" in remark] == [
        "The bundled edge worker does not read the parameter 'all_examples_inference_output'. "
        "It writes no pictures into folders; the page shows the newest hard samples."
    ]


@pytest.mark.parametrize(
    ("key", "value", "also"),
    [
        ("input_shape", "416", []),
        ("input_shape", "416,736,3", []),
        ("input_shape", "wide,high", []),
        ("video_url", "rtsp://x/y", [{"name": "source", "value": "video:0"}]),
    ],
)
def test_sednas_parameters_that_cannot_be_mapped_stay_and_are_told(key: str, value: str, also: list[Any]) -> None:
    resource = _sedna_with({"name": key, "value": value}, *also)
    edge = specification_of(validate(resource)["spec"]).edge
    assert edge.parameters == {key: value, **{pair["name"]: pair["value"] for pair in also}}
    assert any(f"The bundled edge worker does not read the parameter {key!r}." in remark for remark in advice(resource))


def test_sednas_video_is_no_source_of_a_cloud_worker() -> None:
    resource = parse_document(
        SEDNA.replace('name: input_shape, value: "544,544"', "name: video_url, value: rtsp://x/y")
    )
    assert specification_of(validate(resource)["spec"]).cloud.parameters == {"video_url": "rtsp://x/y"}
    assert advice(resource)[-1] == (
        "The bundled cloud worker does not read the parameter 'video_url'. Name what it is to read as `source`."
    )


def test_sednas_parameters_in_our_spelling_are_left_to_the_users_script() -> None:
    own = sample()
    own["spec"]["edgeWorker"]["workerSpec"]["parameters"] = [{"key": "video_url", "value": "rtsp://x/y"}]
    assert own["spec"]["edgeWorker"]["workerSpec"]["scriptDir"]
    assert advice(own) == [], "a user's own script may read it"
    own["spec"]["edgeWorker"]["workerSpec"]["scriptDir"] = ""
    assert advice(own) == [
        "The bundled edge worker does not read the parameter 'video_url'. Name what it is to read as `source`."
    ]


def test_sednas_spelling_without_a_node_is_refused() -> None:
    assert list(problems(parse_document(SEDNA.replace("nodeName: edge0", "")))) == ["$.spec.edgeWorker.nodeName"]


# --- documents ---


def test_json_is_read_as_well() -> None:
    assert parse_document(json.dumps(sample())) == sample()
    assert parse_document("\ufeff" + json.dumps(sample())) == sample()


def test_several_documents_and_lists_are_taken_each_as_a_resource() -> None:
    text = SAMPLE.read_text()
    assert parse_documents(f"---\n{text}---\n{text}---\n") == [sample(), sample()]
    whole = json.dumps({"apiVersion": "v1", "kind": "List", "items": [sample()] * 3})
    assert parse_documents(whole) == [sample()] * 3
    with pytest.raises(InvalidResource, match="2 documents"):
        parse_document(f"{text}---\n{text}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "nothing in it"),
        ("# only a remark", "nothing in it"),
        ("a: [1, 2", "line 1"),
        ("a: &x [*x]", "anchors and aliases"),
        ("a: &x 1\nb: *x", "anchors and aliases"),
        ("a: !!python/object/apply:os.system [id]", "tags"),
        ("a: 1\na: 2", "twice"),
        ("a\x07b: 1", "U+0007"),
        (b"\xff\xfe", "UTF-8"),
        ("{" * 50_000, "deep"),
        ('{"a":' * 50_000, "deep"),
        ("[" * 50_000, "deep"),
        ("---\na: 1\n" * 101, "more than 100 documents"),
        ("- a\n" * 20_001, "more than 20000 parts"),
        ('{"kind": "List", "items": 7}', "nothing in it"),
    ],
)
def test_a_document_that_cannot_be_read_is_refused_and_where_it_breaks_is_said(text: str | bytes, message: str) -> None:
    with pytest.raises(InvalidResource) as caught:
        parse_documents(text)
    assert message in caught.value.message
    assert caught.value.detail["problems"][0]["path"] == "$"


@pytest.mark.parametrize("text", ["#" * (256 * 1024 + 1), b"#" * (256 * 1024 + 1), "é" * (128 * 1024 + 1)])
def test_a_document_that_is_too_large_is_not_read(text: str | bytes) -> None:
    with pytest.raises(TooLarge):
        parse_documents(text)


def _parts(path: str) -> list[Any]:
    pieces = path.replace("[", ".").replace("]", "").split(".")
    return [int(piece) if piece.isdigit() else piece for piece in pieces]


def _inside(value: Any, path: list[Any]) -> Any:
    for part in path:
        value = value[part]
    return value


def placed(**fields: Any) -> dict[str, Any]:
    """The sample with these fields of the edge worker, without a node's name."""
    resource = without("edgeWorker.nodeName")
    resource["spec"]["edgeWorker"] |= fields
    return resource


def test_labels_of_nodes_may_stand_for_a_node() -> None:
    edge = validate(placed(nodeSelector={"site": "berlin"}))["spec"]["edgeWorker"]
    assert edge["nodeSelector"] == {"site": "berlin"} and "nodeName" not in edge


@pytest.mark.parametrize("selector", [{}, {"-": "x"}, {"site": "no value"}, {f"key{n}": "x" for n in range(65)}])
def test_a_selector_that_is_none_is_refused(selector: dict[str, str]) -> None:
    assert list(problems(placed(nodeSelector=selector))) == ["$.spec.edgeWorker.nodeSelector"]


def test_a_selector_and_a_node_contradict_each_other() -> None:
    both = problems(placed(nodeSelector={"site": "berlin"}, nodeName="edge0"))
    assert both == {"$.spec.edgeWorker.nodeSelector": "cannot stand beside nodeName"}


@pytest.mark.parametrize(
    ("rollout", "at"),
    [
        ({"waves": ["1", "0%"]}, "waves[1]"),
        ({"waves": ["1"] * 21}, "waves"),
        ({"soakSeconds": -1}, "soakSeconds"),
        ({"maxErrors": 1_000_001}, "maxErrors"),
        ({"minAgreement": "1.1"}, "minAgreement"),
        ({"maxLatencyRatio": "fast"}, "maxLatencyRatio"),
        ({"maxLatencyRatio": "nan"}, "maxLatencyRatio"),
    ],
)
def test_a_roll_out_that_cannot_be_is_refused(rollout: dict[str, Any], at: str) -> None:
    refused = problems(placed(nodeName="edge0", rollout=rollout))
    assert list(refused) == [f"$.spec.edgeWorker.rollout.{at}"]
    assert validate(placed(nodeName="edge0", rollout={}))["spec"]["edgeWorker"]["rollout"] == {}
