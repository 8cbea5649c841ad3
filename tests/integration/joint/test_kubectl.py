"""kubectl itself works against this product, without a cluster."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path

import httpx
import pytest
import yaml

from tests.harness.api import small_model
from tests.harness.joint.deployment import JointDeployment
from tests.harness.joint.resources import SEDNA
from tests.harness.kubectl import NAME, Kubectl, environment, kubectl_of
from tests.harness.kubernetes import SAMPLE, kubeconfig, sample, without_resources
from tests.harness.until import PATIENCE_S


@pytest.fixture
def kubectl(kubectl_program: str, joint: JointDeployment, tmp_path: Path) -> Kubectl:
    with httpx.Client(base_url=joint.deployment.url, timeout=PATIENCE_S, trust_env=False) as client:
        without_resources(client)
    return kubectl_of(kubectl_program, tmp_path, kubeconfig(tmp_path, joint.deployment.url))


def test_the_sample_is_created_with_its_fields_checked_and_read_back(kubectl: Kubectl) -> None:
    assert kubectl("create", "-f", SAMPLE).stdout.strip() == f"jointinferenceservice.neptune.io/{NAME} created"
    resource = yaml.safe_load(kubectl("get", "jis", NAME, "-o", "yaml").stdout)
    assert resource["spec"] == sample()["spec"]
    assert (
        yaml.safe_load(kubectl("get", "jointinferenceservice", NAME, "-o", "json").stdout)["spec"] == resource["spec"]
    )
    again = kubectl("create", "-f", SAMPLE, fails=True)
    assert "AlreadyExists" in again.stderr


def test_the_table_has_the_columns_of_the_crd_and_the_reason(kubectl: Kubectl) -> None:
    kubectl("create", "-f", SAMPLE)
    lines = [line.split() for line in kubectl("get", "jis").stdout.splitlines()]
    assert lines[0] == ["NAME", "STATUS", "ACTIVE", "FAILED", "AGE", "REASON"]
    assert (lines[1][0], len(lines[1])) == (NAME, 6)
    everywhere = [line.split() for line in kubectl("get", "jis", "-A").stdout.splitlines()]
    assert (everywhere[0][0], everywhere[1][:2]) == ("NAMESPACE", ["default", NAME])
    assert "No resources found" in kubectl("get", "jis", "-n", "nowhere").stderr


def test_a_service_is_described_with_its_events(kubectl: Kubectl) -> None:
    kubectl("create", "-f", SAMPLE)
    text = kubectl("describe", "jis", NAME).stdout
    assert "Hard Example Algorithm" in text
    assert "Accepted" in text.split("Events:")[1]


def test_what_is_applied_twice_is_unchanged(kubectl: Kubectl, tmp_path: Path) -> None:
    assert kubectl("apply", "-f", SAMPLE).stdout.strip().endswith("created")
    assert kubectl("apply", "-f", SAMPLE).stdout.strip().endswith("unchanged")
    changed = tmp_path / "changed.yaml"
    changed.write_text(SAMPLE.read_text().replace('"edge0"', '"edge1"'))
    assert kubectl("diff", "-f", changed, status=1).stdout.count("nodeName: edge1") == 1
    assert kubectl("apply", "-f", changed).stdout.strip().endswith("configured")
    assert kubectl("get", "jis", NAME, "-o", "jsonpath={.spec.edgeWorker.nodeName}").stdout == "edge1"


def test_it_is_applied_by_the_server_too(kubectl: Kubectl, tmp_path: Path) -> None:
    for _ in range(2):
        assert kubectl("apply", "--server-side", "-f", SAMPLE).stdout.strip().endswith("serverside-applied")
    assert "cloudWorker" in kubectl("get", "jis", NAME, "-o", "yaml").stdout


def test_who_applies_by_the_server_does_not_overwrite_anothers_field_unasked(kubectl: Kubectl, tmp_path: Path) -> None:
    apply = ("apply", "--server-side", "-f")
    kubectl(*apply, SAMPLE, "--field-manager=alice")
    changed = tmp_path / "changed.yaml"
    changed.write_text(SAMPLE.read_text().replace('"IBT"', '"Threshold"'))
    refused = kubectl(*apply, changed, "--field-manager=bob", fails=True).stderr
    assert 'conflict with "alice"' in refused and ".spec.edgeWorker.hardExampleAlgorithm.name" in refused
    kubectl(*apply, changed, "--field-manager=bob", "--force-conflicts")
    algorithm = "jsonpath={.spec.edgeWorker.hardExampleAlgorithm.name}"
    assert kubectl("get", "jis", NAME, "-o", algorithm).stdout == "Threshold"


def test_who_applied_by_themselves_may_go_over_to_the_server(kubectl: Kubectl, tmp_path: Path) -> None:
    kubectl("apply", "-f", SAMPLE)
    changed = tmp_path / "changed.yaml"
    changed.write_text(SAMPLE.read_text().replace('"edge0"', '"edge1"'))
    assert kubectl("apply", "--server-side", "-f", changed).stdout.strip().endswith("serverside-applied")


def test_a_service_is_patched_by_operations(kubectl: Kubectl) -> None:
    kubectl("create", "-f", SAMPLE)
    patch = '[{"op": "replace", "path": "/spec/edgeWorker/nodeName", "value": "edge9"}]'
    kubectl("patch", "jis", NAME, "--type=json", "-p", patch)
    assert kubectl("get", "jis", NAME, "-o", "jsonpath={.spec.edgeWorker.nodeName}").stdout == "edge9"


def test_a_service_is_patched_labelled_and_replaced(kubectl: Kubectl, tmp_path: Path) -> None:
    kubectl("create", "-f", SAMPLE)
    kubectl("patch", "jis", NAME, "--type=merge", "-p", '{"spec":{"edgeWorker":{"model":{"name":"smaller"}}}}')
    kubectl("label", "jis", NAME, "app=helmet")
    kubectl("annotate", "jis", NAME, "note=two words")
    resource = yaml.safe_load(kubectl("get", "jis", "-l", "app=helmet", "-o", "yaml").stdout)["items"][0]
    assert resource["spec"]["edgeWorker"]["model"]["name"] == "smaller"
    assert resource["metadata"]["annotations"]["note"] == "two words"
    kubectl("replace", "-f", SAMPLE)
    resource = yaml.safe_load(kubectl("get", "jis", NAME, "-o", "yaml").stdout)
    assert resource["spec"]["edgeWorker"]["model"]["name"] == "small-model"
    assert "labels" not in resource["metadata"]


def test_it_is_edited_in_an_editor(kubectl: Kubectl, tmp_path: Path) -> None:
    kubectl("create", "-f", SAMPLE)
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nsed -i 's/nodeName: edge0/nodeName: edge7/' \"$1\"\n")
    editor.chmod(0o755)
    kubectl("edit", "jis", NAME, env={"KUBE_EDITOR": str(editor)})
    assert kubectl("get", "jis", NAME, "-o", "jsonpath={.spec.edgeWorker.nodeName}").stdout == "edge7"


def test_a_mistake_is_named_by_its_field(kubectl: Kubectl, tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(SAMPLE.read_text().replace('      frameworkVersion: "1.18"\n', "", 1))
    refused = kubectl("create", "-f", file, fails=True)
    assert "spec.edgeWorker.workerSpec.frameworkVersion: Required value" in refused.stderr
    file.write_text(SAMPLE.read_text().replace("    nodeName:", "    replicas: 3\n    nodeName:", 1))
    refused = kubectl("create", "-f", file, fails=True)
    assert 'unknown field "spec.edgeWorker.replicas"' in refused.stderr
    refused = kubectl("create", "-f", file, "--validate=warn")
    assert 'Warning: unknown field "spec.edgeWorker.replicas"' in refused.stderr
    assert "NotFound" in kubectl("get", "jis", "nobody", fails=True).stderr


def test_a_dry_run_at_the_server_creates_nothing(kubectl: Kubectl) -> None:
    assert "created (server dry run)" in kubectl("create", "--dry-run=server", "-f", SAMPLE).stdout
    assert "No resources found" in kubectl("get", "jis").stderr


def test_the_fields_are_explained(kubectl: Kubectl) -> None:
    text = kubectl("explain", "jis.spec.edgeWorker").stdout
    assert "hardExampleAlgorithm" in text
    assert text.count("-required-") == 4  # of nodeName and nodeSelector one is
    assert "jis" in kubectl("api-resources").stdout


def test_delete_waits_until_it_is_gone(kubectl: Kubectl) -> None:
    kubectl("create", "-f", SAMPLE)
    assert "deleted" in kubectl("delete", "-f", SAMPLE, f"--timeout={PATIENCE_S}s").stdout
    assert "NotFound" in kubectl("get", "jis", NAME, fails=True).stderr


def test_sednas_resource_is_applied_changed_described_and_deleted(kubectl: Kubectl, tmp_path: Path) -> None:
    file = tmp_path / "sedna.yaml"
    file.write_text(SEDNA)
    name, applied = "helmet-detection", "jointinferenceservice.sedna.io/helmet-detection"
    created = kubectl("apply", "-f", file)
    assert created.stdout.strip() == f"{applied} created"
    assert "Warning: spec.edgeWorker.template.spec.dnsPolicy has no effect here" in created.stderr
    file.write_text(SEDNA.replace("nodeName: edge0", "nodeName: edge1").replace('"0.9"', '"0.8"'))
    assert kubectl("apply", "-f", file).stdout.strip() == f"{applied} configured"
    edge = yaml.safe_load(kubectl("get", "jis", name, "-o", "yaml").stdout)["spec"]["edgeWorker"]
    assert (edge["nodeName"], edge["hardExampleAlgorithm"]["parameters"][0]["value"]) == ("edge1", "0.8")
    edge = yaml.safe_load(kubectl("get", "-f", file, "-o", "yaml").stdout)["spec"]["edgeWorker"]
    assert edge["template"]["spec"]["nodeName"] == "edge1"
    assert kubectl("apply", "--server-side", "-f", file).stdout.strip() == f"{applied} serverside-applied"
    assert "Accepted" in kubectl("describe", "-f", file).stdout.split("Events:")[1]
    assert "hardExampleMining" in kubectl("explain", "--api-version=sedna.io/v1alpha1", "jis.spec.edgeWorker").stdout
    assert "deleted" in kubectl("delete", "-f", file, f"--timeout={PATIENCE_S}s").stdout
    assert "NotFound" in kubectl("get", "jis", name, fails=True).stderr


def test_models_are_listed_read_and_described_and_not_deleted(kubectl: Kubectl, joint: JointDeployment) -> None:
    names = ("door", "door~day")
    for name in names:
        joint.add_model(name, small_model())
    try:
        for place in (["models"], ["models", "-A"], ["models.sedna.io", "-n", "shop"]):
            lines = [line.split() for line in kubectl("get", *place).stdout.splitlines()]
            assert [line[:3] for line in lines] == [
                ["NAME", "VERSION", "FORMAT"],
                ["door", "1", "onnx"],
                ["door~0day", "1", "onnx"],
            ]
        model = yaml.safe_load(kubectl("get", "model", "door~0day", "-o", "yaml").stdout)
        assert (model["apiVersion"], model["kind"], model["status"]["name"]) == ("sedna.io/v1alpha1", "Model", names[1])
        text = kubectl("describe", "model", "door").stdout
        assert "Size Bytes:" in text and "door~0day" not in text
        assert "door~0day" in kubectl("describe", "models").stdout
        assert kubectl("get", "model", "a~1b", fails=True).stderr.strip().endswith('models.sedna.io "a~1b" not found')
        assert "may not contain '%'" in kubectl("get", "model", "50%", fails=True).stderr
        assert "the server does not allow this method" in kubectl("delete", "model", "door", fails=True).stderr
    finally:
        joint.remove_models(*names)


def written_models(file: Path, **urls: str) -> Path:
    """A file with Models of Sedna, as its examples have them, and the service that names small and big."""
    models = [
        {
            "apiVersion": "sedna.io/v1alpha1",
            "kind": "Model",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"url": url, "format": Path(url).suffix[1:]},
        }
        for name, url in urls.items()
    ]
    file.write_text(f"{yaml.safe_dump_all(models)}---{SEDNA}")
    return file


def test_a_file_with_sednas_models_and_their_service_is_applied_and_the_registered_models_stay(
    kubectl: Kubectl, joint: JointDeployment, tmp_path: Path
) -> None:
    file = written_models(tmp_path / "sedna.yaml", small="/models/small.onnx", big="/models/big.pb")
    service, models = "jointinferenceservice.sedna.io/helmet-detection", ("small", "big")
    for name in models:
        joint.add_model(name, small_model())
    try:
        before = kubectl("get", "models", "-o", "yaml").stdout
        for done in ("created", "configured"):
            applied = kubectl("apply", "-f", file)
            assert applied.stdout.splitlines() == [
                *(f"model.sedna.io/{name} configured" for name in models),
                f"{service} {done}",
            ]
            assert applied.stderr.splitlines()[:2] == [
                "Warning: The file of the model small is fetched by `modelmill joint apply`, not by kubectl; "
                "the registered version 1 is used",
                "Warning: The file of the model big has the format pb, and models run as ONNX; "
                "the registered version 1 is used",
            ]
        applied = kubectl("apply", "--server-side", "--force-conflicts", "-f", file)
        assert applied.stdout.count("serverside-applied") == 3
        assert "last-applied-configuration" not in applied.stderr
        assert kubectl("apply", "--dry-run=server", "-f", file).stdout.count("(server dry run)") == 3
        assert kubectl("replace", "-f", file).stdout.count("replaced") == 3
        kubectl("label", "model", "small", "site=berlin")
        assert kubectl("get", "models", "-o", "yaml").stdout == before
        own = tmp_path / "own.yaml"
        own.write_text(kubectl("get", "model", "small", "-o", "yaml").stdout)
        assert kubectl("apply", "-f", own).stderr == "", "what is read can be applied"
        assert "http(s) URL" in kubectl("explain", "model.spec").stdout
        refused = kubectl("create", "-f", file, fails=True).stderr
        assert all(f'models.sedna.io "{name}" already exists' in refused for name in models)
    finally:
        without_resources(joint.http)
        joint.remove_models(*models)


def test_a_model_of_sedna_that_is_not_registered_is_refused_and_its_service_is_applied(
    kubectl: Kubectl, tmp_path: Path
) -> None:
    file = written_models(tmp_path / "sedna.yaml", small="/models/small.pb", big="https://models.example/big.onnx")
    for words in (("apply",), ("apply", "--server-side", "--force-conflicts"), ("create", "--dry-run=server")):
        refused = kubectl(*words, "-f", file, fails=True)
        assert "model.sedna.io" not in refused.stdout
        for problem in (
            "spec.url: The file of the model small has the format pb, and models run as ONNX. "
            "Register it: modelmill models add small --file model.onnx",
            "spec.url: The file of the model big is fetched by `modelmill joint apply`, not by kubectl. "
            "Register it: modelmill models add big --file model.onnx",
        ):
            assert problem in refused.stderr
        kubectl("get", "jis", "helmet-detection")
    refused = kubectl("apply", "-f", written_models(file, small=""), fails=True).stderr
    assert 'The Model "small" is invalid: spec.url: Required value' in refused


def test_changes_are_seen_as_they_come(
    kubectl: Kubectl, joint: JointDeployment, kubectl_program: str, tmp_path: Path
) -> None:
    config = kubeconfig(tmp_path, joint.deployment.url)
    command = [kubectl_program, "--kubeconfig", str(config), "get", "jis", "--watch", "--output-watch-events"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment(tmp_path))
    timer = threading.Timer(PATIENCE_S, process.kill)
    timer.start()
    try:
        kubectl("create", "-f", SAMPLE)
        assert process.stdout is not None
        seen = iter(process.stdout)
        assert next(line for line in seen if NAME in line).split()[:2] == ["ADDED", NAME]
        kubectl("delete", "jis", NAME)
        assert next(line for line in seen if "DELETED" in line).split()[1] == NAME
    finally:
        timer.cancel()
        process.kill()
        process.communicate()
