"""Models on their way in and results on their way out: each kind against a server of its kind."""

from __future__ import annotations

import contextlib
import copy
import importlib.util
import io
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from minio import Minio
from pydantic import SecretStr

from app.bootstrap.container import Container, assemble
from app.conversion import object_keys
from app.conversion.errors import JobNotFound
from app.conversion.model import JobRecord
from app.conversion.service.submissions import Submission
from app.exchange import transfer_process
from app.exchange.errors import BadSource, BadTarget, NothingToExport, TargetRefused, TooManyTransfers, TransferNotFound
from app.exchange.model import TRANSFER, Transfer, TransferState
from app.exchange.service import MOST_UNFINISHED, facts_of
from app.exchange.store import TransferStore
from app.exchange.transfer.__main__ import main
from app.kit.clock import now
from app.kit.errors import ExtraMissing
from app.settings import Settings
from tests.harness.api import png, small_model
from tests.harness.exchange import reported_job
from tests.harness.mlflow_server import running_mlflow
from tests.harness.s3_server import ACCESS_KEY, SECRET_KEY, S3Server
from tests.harness.web import served
from tests.standins.hub import Hub
from tests.standins.mlflow_server import MlflowServer

REPO = "org/detector"
TFLITE = Path(__file__).with_name("tflite")
"""A Conv and a Dense layer, as TensorFlow 2.21's TFLiteConverter writes them: in float, and quantized to int8."""
PROGRAM = Path(__file__).with_name("pytorch") / "conv.pt2"
"""A Conv, as PyTorch 2.13's torch.export.save writes it."""
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="there is no PyTorch")


class Here(contextlib.nullcontext["Here"]):
    """What stands for the process of a transfer, and is none: it runs once all is written to its input."""

    def __init__(self, *_: object, **__: object) -> None:
        super().__init__(self)
        self.stdin, self.stdout, self.stderr = Input(self), io.BytesIO(), io.BytesIO()

    def run(self, request: bytes) -> None:
        with pytest.MonkeyPatch.context() as patches, contextlib.redirect_stdout(io.StringIO()) as printed:
            patches.setattr("sys.stdin", io.StringIO(request.decode()))
            main()
        self.stdout = io.BytesIO(printed.getvalue().encode())

    def kill(self) -> None:
        """It has ended."""


class Input(io.BytesIO):
    def __init__(self, process: Here) -> None:
        super().__init__()
        self._process = process

    def __exit__(self, *_: object) -> None:
        self._process.run(self.getvalue())


@pytest.fixture
def processes() -> None:
    """Transfers have processes of their own, as in the product, each for a second of the processor."""


@pytest.fixture(autouse=True)
def without_processes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "processes" not in request.fixturenames:
        monkeypatch.setattr(transfer_process, "spawn", Here)


in_processes = pytest.mark.usefixtures("processes")


@pytest.fixture
def hub() -> Iterator[tuple[Hub, str]]:
    hub = Hub({REPO: {"README.md": b"# A detector", "model.onnx": small_model()}}, refuses=("org/closed",))
    with served(hub.app) as url:
        yield hub, url


@pytest.fixture(scope="module")
def mlflow_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_mlflow(tmp_path_factory.mktemp("mlflow")) as url:
        yield url


@pytest.fixture
def told(settings: Settings, hub: tuple[Hub, str]) -> Iterator[Container]:
    container = assemble(settings.model_copy(update={"hf_endpoint": hub[1]}))
    yield container
    container.close()


def run(container: Container, source: str, user: str = "alice") -> Transfer:
    transfer = container.exchange.fetch(user, source, now=now())
    container.exchange.run(transfer.transfer_id)
    return container.exchange.get(user, transfer.transfer_id)


def failure(transfer: Transfer) -> tuple[str, str]:
    assert transfer.state is TransferState.FAILED and transfer.error
    return transfer.error["code"], transfer.error["message"] + " " + transfer.error["hint"]


def stored(container: Container, key: str) -> bytes:
    return b"".join(container.objects.read(key))


# --- in -----------------------------------------------------------------------------------------------
@in_processes
def test_the_only_model_of_a_repository_becomes_an_upload(told: Container) -> None:
    transfer = run(told, f"hf://{REPO}")
    assert transfer.state is TransferState.COMPLETED
    assert stored(told, transfer.model_key) == small_model()
    assert object_keys.source_of(transfer.model_key) is not None
    assert (transfer.name, transfer.total_bytes) == ("detector", len(small_model()))
    json.dumps(TRANSFER.write(transfer))


def test_of_several_models_one_is_to_be_named(told: Container, hub: tuple[Hub, str]) -> None:
    hub[0].files[REPO]["other.onnx"] = b"other"
    code, words = failure(run(told, f"hf://{REPO}"))
    assert code == "BAD_SOURCE" and "2 models" in words and ":model.onnx, :other.onnx" in words
    assert run(told, f"hf://{REPO}:model.onnx").state is TransferState.COMPLETED


def test_a_repository_that_is_not_there_or_not_allowed_is_said_so(settings: Settings, hub: tuple[Hub, str]) -> None:
    container = assemble(settings.model_copy(update={"hf_endpoint": hub[1], "source_hf_repositories": "org/*"}))
    missing = failure(run(container, "hf://org/missing"))[1]
    assert "no such repository" in missing and "reach" not in missing, "it was reached"
    assert failure(run(container, "hf://evil/detector"))[0] == "SOURCE_REFUSED"
    container.close()


def test_a_hub_that_cannot_be_reached_is_named(settings: Settings) -> None:
    nobody = "http://127.0.0.1:9"
    container = assemble(settings.model_copy(update={"hf_endpoint": nobody}))
    record = reported_job(container, "alice")
    for transfer in (run(container, f"hf://{REPO}"), push(container, record.job_id, "hf://org/converted")):
        code, words = failure(transfer)
        assert code == "TRANSFER_FAILED" and f"{nobody} cannot be reached" in words and "httpx" not in words
        assert words.endswith("Is the address right, and can this service reach it?")
    container.close()


def test_more_bytes_than_a_model_may_have_are_refused_before_they_come(
    settings: Settings, hub: tuple[Hub, str]
) -> None:
    container = assemble(settings.model_copy(update={"hf_endpoint": hub[1], "max_model_bytes": 100}))
    code, words = failure(run(container, f"hf://{REPO}"))
    assert code == "SOURCE_TOO_LARGE" and "MODELMILL_MAX_MODEL_BYTES" in words
    container.close()


def test_what_is_no_source_is_refused_at_once_and_another_users_transfer_is_none(told: Container) -> None:
    with pytest.raises(BadSource):
        told.exchange.fetch("alice", "file:///etc/passwd", now=now())
    transfer = told.exchange.fetch("alice", f"hf://{REPO}", now=now())
    with pytest.raises(TransferNotFound):
        told.exchange.get("mallory", transfer.transfer_id)


def test_a_message_that_comes_twice_fetches_once(told: Container) -> None:
    first = run(told, f"hf://{REPO}")
    told.exchange.run(first.transfer_id)
    assert told.exchange.get("alice", first.transfer_id) == first


def test_urls_are_fetched_only_where_the_operator_allows_and_from_no_private_network(settings: Settings) -> None:
    closed = assemble(settings)
    assert "MODELMILL_SOURCE_URLS" in failure(run(closed, "https://models.example/a.onnx"))[1]
    closed.close()
    opened = assemble(settings.model_copy(update={"source_urls": "https://127.0.0.1:*/* https://localhost:*/*"}))
    for host in ("127.0.0.1", "localhost"):
        code, words = failure(run(opened, f"https://{host}:9/a.onnx"))
        assert code == "SOURCE_REFUSED" and "private network" in words
    opened.close()


def test_a_model_in_a_bucket(settings: Settings, s3_server: S3Server) -> None:
    client = Minio(
        s3_server.endpoint.removeprefix("http://"), access_key=ACCESS_KEY, secret_key=SECRET_KEY, secure=False
    )
    client.make_bucket("sources")
    client.put_object("sources", "models/a.onnx", io.BytesIO(small_model()), len(small_model()))
    access = {
        "source_s3_endpoint": s3_server.endpoint,
        "source_s3_access_key": ACCESS_KEY,
        "source_s3_secret_key": SecretStr(SECRET_KEY),
        "source_s3_buckets": "sources",
    }
    container = assemble(settings.model_copy(update=access))
    transfer = run(container, "s3://sources/models/a.onnx")
    assert stored(container, transfer.model_key) == small_model()
    assert failure(run(container, "s3://sources/models/b.onnx"))[0] == "TRANSFER_FAILED"
    assert failure(run(container, "s3://another/models/a.onnx"))[0] == "SOURCE_REFUSED"
    container.close()


@needs_torch
@pytest.mark.slow
def test_an_exported_program_becomes_an_onnx(told: Container, hub: tuple[Hub, str]) -> None:
    hub[0].files["org/torch"] = {"conv.pt2": PROGRAM.read_bytes(), "bad.pt2": b"no program"}
    transfer = run(told, "hf://org/torch:conv.pt2")
    assert transfer.error is None
    onnx = pytest.importorskip("onnx")
    assert [node.op_type for node in onnx.load_from_string(stored(told, transfer.model_key)).graph.node] == ["Conv"]
    code, words = failure(run(told, "hf://org/torch:bad.pt2"))
    assert code == "BAD_SOURCE" and "torch.export.save" in words


@needs_torch
@pytest.mark.exhaustive  # fetched ones are converted above, and uploaded ones of TFLite below
def test_an_exported_program_that_is_uploaded_becomes_an_onnx_whatever_it_is_called(told: Container) -> None:
    onnx = pytest.importorskip("onnx")
    uploads = told.conversion.uploads
    upload_id = uploads.begin("alice")
    key = uploads.store_model(upload_id, [PROGRAM.read_bytes()]).key
    assert uploads.merge(upload_id) is not None
    assert [node.op_type for node in onnx.load_from_string(stored(told, key)).graph.node] == ["Conv"]


def test_a_tflite_model_that_is_uploaded_is_converted_or_says_what_to_install(told: Container) -> None:
    uploads = told.conversion.uploads
    upload_id = uploads.begin("alice")
    key = uploads.store_model(upload_id, [(TFLITE / "int8.tflite").read_bytes()]).key
    if importlib.util.find_spec("tf2onnx") is None:
        with pytest.raises(ExtraMissing, match="tf2onnx"):
            uploads.merge(upload_id)
    else:
        uploads.merge(upload_id)
        onnx = pytest.importorskip("onnx")
        assert_is_float(onnx.load_from_string(stored(told, key)))


def assert_is_float(model: Any) -> None:
    """Of the model in ONNX: what was quantized computes in float again."""
    kinds = {node.op_type for node in model.graph.node}
    assert {"Conv", "Softmax"} <= kinds
    assert not kinds & {"QuantizeLinear", "DequantizeLinear"}


@pytest.mark.slow
@pytest.mark.exhaustive  # an uploaded one is converted above, and a fetched program of PyTorch
@pytest.mark.parametrize("name", ["float", "int8"])
def test_a_tflite_model_becomes_a_float_onnx(told: Container, hub: tuple[Hub, str], name: str) -> None:
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("tf2onnx")
    content = (TFLITE / f"{name}.tflite").read_bytes()
    hub[0].files["org/lite"] = {"net.tflite": content, "bad.tflite": content[:99]}
    transfer = run(told, "hf://org/lite:net.tflite")
    assert transfer.error is None
    model = onnx.load_from_string(stored(told, transfer.model_key))
    assert [axis.dim_value for axis in model.graph.input[0].type.tensor_type.shape.dim] == [1, 16, 16, 3]
    assert model.graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.FLOAT
    assert_is_float(model)
    code, words = failure(run(told, "hf://org/lite:bad.tflite"))
    assert code == "BAD_SOURCE" and "TFLite" in words


# --- out ----------------------------------------------------------------------------------------------
def push(container: Container, job_id: str, target: str, **options: str) -> Transfer:
    transfer = container.exchange.push("alice", job_id, target, now=now(), **options)
    container.exchange.run(transfer.transfer_id)
    return container.exchange.get("alice", transfer.transfer_id)


@in_processes
def test_results_are_pushed_to_a_repository_with_a_card_of_their_report(told: Container, hub: tuple[Hub, str]) -> None:
    record = reported_job(told, "alice", name="detector 640")
    transfer = push(told, record.job_id, "hf://org/converted")
    assert transfer.error is None and transfer.url == f"{hub[1]}/org/converted"
    files = hub[0].files["org/converted"]
    assert hub[0].private == {"org/converted"}, "who makes it open says so at the hub"
    assert {"README.md", "out.nef", "out.bie", "bie.json", "nef.json"} <= set(files)
    assert files["out.nef"] == b"nef of the test"
    card = files["README.md"].decode()
    assert "# detector 640" in card and "31.5 dB" in card and "| std | 1 |" in card


def test_results_of_a_job_that_a_restart_has_forgotten_are_pushed_from_the_archive(
    told: Container, hub: tuple[Hub, str]
) -> None:
    record = reported_job(told, "alice")
    told.archive.descriptions.write(record)
    told.store.delete(record.job_id)
    assert push(told, record.job_id, "hf://org/archived").error is None
    assert hub[0].files["org/archived"]["out.nef"] == b"nef of the test"
    with pytest.raises(JobNotFound):
        told.exchange.push("bob", record.job_id, "hf://org/archived", now=now())


def submit_fetched(container: Container, source: str) -> JobRecord:
    model_key = run(container, source).model_key
    images = model_key.replace(object_keys.MODEL, object_keys.IMAGES)
    container.objects.put(images, [png(0)])
    return container.conversion.submissions.submit(Submission(model_key, images, owner="alice"))


def test_a_job_of_a_fetched_model_says_where_it_came_from_and_so_does_what_is_pushed(
    told: Container, hub: tuple[Hub, str]
) -> None:
    submitted = submit_fetched(told, f"hf://{REPO}:model.onnx")
    assert submitted.origin == f"hf://{REPO}:model.onnx"
    key = object_keys.input_(submitted.job_id, object_keys.MODEL)
    images = object_keys.input_(submitted.job_id, object_keys.IMAGES)
    again = told.conversion.submissions.submit(Submission(key, images, owner="alice"))
    assert again.origin == submitted.origin, "its model is the same"

    push(told, reported_job(told, "alice", origin=submitted.origin).job_id, "hf://org/converted")
    card = hub[0].files["org/converted"]["README.md"].decode()
    assert f"base_model: {REPO}\n" in card and f"from `hf://{REPO}:model.onnx`" in card


def test_what_somebody_wrote_into_the_metadata_of_a_repository_outlives_the_next_push(
    told: Container, hub: tuple[Hub, str]
) -> None:
    hub[0].files["org/described"] = {"README.md": b"---\nlicense: mit\n---\n# By hand\n"}
    push(told, reported_job(told, "alice").job_id, "hf://org/described")
    assert hub[0].files["org/described"]["README.md"].startswith(b"---\nlicense: mit\nlibrary_name: onnx\n")


@pytest.mark.parametrize(
    ("origin", "source"),
    [("s3://models/a.onnx", "s3://models/a.onnx"), ("task:a", "task:a"), ("sweep:a", ""), ("", "")],
)
def test_the_source_of_a_job_is_where_its_model_came_from_and_not_its_name(
    told: Container, origin: str, source: str
) -> None:
    assert facts_of(reported_job(told, "alice", origin=origin), {})["source"] == source


def test_a_repository_that_is_not_ours_and_a_job_without_results_are_told(told: Container) -> None:
    record = reported_job(told, "alice")
    code, words = failure(push(told, record.job_id, "hf://org/closed"))
    assert code == "TRANSFER_FAILED" and "may not" in words
    with pytest.raises(NothingToExport):
        told.exchange.push("alice", reported_job(told, "alice", is_good=False).job_id, "hf://org/x", now=now())
    with pytest.raises(BadTarget, match="Only MLflow"):
        told.exchange.push("alice", record.job_id, "hf://org/x", registered_model="m", now=now())


def test_results_go_only_where_the_operator_allows(settings: Settings) -> None:
    container = assemble(settings.model_copy(update={"export_targets": "hf://ours/* mlflow://experiment/edge"}))
    job_id = reported_job(container, "alice").job_id
    for target in ("hf://theirs/x", "mlflow://experiment/edge2"):
        with pytest.raises(TargetRefused):
            container.exchange.push("alice", job_id, target, now=now())
    for target in ("hf://ours/x", "mlflow://experiment/edge"):
        assert container.exchange.push("alice", job_id, target, now=now()).state is TransferState.QUEUED
    container.close()


@in_processes
@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_real_mlflow_takes_results_and_gives_models(settings: Settings, mlflow_server: str) -> None:
    container = assemble(settings.model_copy(update={"mlflow_tracking_uri": mlflow_server}))
    record = reported_job(container, "alice", name="detector", origin="hf://org/detector")
    transfer = push(container, record.job_id, "mlflow://experiment/edge", registered_model="edge-detector")
    assert transfer.error is None
    run_id = transfer.url.rpartition("/")[2]
    client = _client(mlflow_server)
    mlflow_run = client.get_run(run_id)
    assert mlflow_run.data.metrics["snr_db"] == 31.5 and mlflow_run.data.params["toolchain"] == "host"
    assert "platform" not in mlflow_run.data.params, "the host toolchain has none"
    assert mlflow_run.data.tags["modelmill.job_id"] == record.job_id
    assert mlflow_run.data.tags["modelmill.source"] == "hf://org/detector"
    assert {file.path for file in client.list_artifacts(run_id, "modelmill")} >= {
        "modelmill/out.nef",
        "modelmill/README.md",
    }
    assert [version.run_id for version in client.search_model_versions("name='edge-detector'")] == [run_id]

    client.log_artifact(run_id, str(_file(settings, small_model())), "onnx")
    fetched = run(container, f"mlflow://run/{run_id}/onnx/model.onnx")
    assert fetched.error is None and stored(container, fetched.model_key) == small_model()
    source = f"{mlflow_run.info.artifact_uri}/onnx"
    client.create_model_version("edge-detector", source, run_id)
    registered = run(container, "models:/edge-detector/2")
    assert registered.error is None and stored(container, registered.model_key) == small_model()
    assert failure(run(container, "models:/edge-detector/9"))[0] == "TRANSFER_FAILED"
    container.close()


def test_without_a_server_of_mlflow_it_is_said_who_names_one(told: Container) -> None:
    assert "MODELMILL_MLFLOW_TRACKING_URI" in failure(run(told, "models:/detector/1"))[1]


@pytest.fixture
def mlflow_here(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What its client changes in the process of a transfer is as it was afterwards."""
    mlflow = pytest.importorskip("mlflow")
    registry = importlib.import_module("mlflow.store.artifact.artifact_repository_registry")
    known = "_artifact_repository_registry"
    monkeypatch.setattr(registry, known, copy.deepcopy(getattr(registry, known)))
    with patch.dict(os.environ):
        yield
        mlflow.set_tracking_uri("")


@pytest.mark.usefixtures("mlflow_here")
def test_where_mlflow_says_that_artifacts_lie_opens_nothing_but_its_own_server(
    settings: Settings, tmp_path: Path
) -> None:
    """Who may write there could name a folder of this machine, or a host of its network."""
    (tmp_path / "alices.onnx").write_bytes(small_model())
    requests: list[str] = []

    async def inside(scope: Any, _: Any, send: Any) -> None:
        requests.append(scope["path"])
        await send({"type": "http.response.start", "status": 404, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    server = MlflowServer("")
    with served(server.app) as url, served(inside) as other:
        container = assemble(settings.model_copy(update={"mlflow_tracking_uri": url}))
        requests.clear()
        server.lies = f"file://{tmp_path}"
        assert failure(run(container, "mlflow://run/0a/alices.onnx"))[0] == "SOURCE_REFUSED"
        record = reported_job(container, "alice")
        assert failure(push(container, record.job_id, "mlflow://experiment/edge"))[0] == "SOURCE_REFUSED"
        server.lies = other.replace("http:", "mlflow-artifacts:")
        assert failure(run(container, "models:/alices/1"))[0] == "SOURCE_REFUSED"
        container.close()
    assert not requests
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["alices.onnx"]


def test_a_user_has_so_many_transfers_and_one_whose_process_is_gone_has_failed(told: Container) -> None:
    first, *_ = [told.exchange.fetch("alice", f"hf://{REPO}", now=now()) for _ in range(MOST_UNFINISHED)]
    with pytest.raises(TooManyTransfers):
        told.exchange.fetch("alice", f"hf://{REPO}", now=now())
    assert told.exchange.fetch("bob", f"hf://{REPO}", now=now())
    told.exchange.run(first.transfer_id)
    dying = told.exchange.fetch("alice", f"hf://{REPO}", now=now())
    TransferStore(told.redis).put(replace(dying, state=TransferState.RUNNING))
    told.exchange.run(dying.transfer_id)
    assert failure(told.exchange.get("alice", dying.transfer_id))[0] == "TRANSFER_FAILED"


def _client(url: str) -> Any:
    mlflow = pytest.importorskip("mlflow")
    return mlflow.MlflowClient(tracking_uri=url)


def _file(settings: Settings, data: bytes) -> Path:
    path = settings.data_dir / "model.onnx"
    path.write_bytes(data)
    return path
