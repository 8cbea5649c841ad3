"""What programs load before somebody needs it: each library is in the memory of an installation that does nothing, and
a process waits for it at its start. Each is tried in a process of its own, for this one has loaded all there is."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from app.conversion.model import Stage
from app.conversion.toolchains import libraries
from app.standalone.preload import PRELOADED
from tests.harness.models.vision import brightest_channel, save
from tests.harness.paths import REPOSITORY

HEAVY = {
    "PIL",
    "aiosmtplib",
    "alembic",
    "asyncssh",
    "av",
    "cryptography.hazmat",
    "httpx",
    "huggingface_hub",
    "jsonpatch",
    "jsonschema",
    "limits",
    "mcp",
    "mlflow",
    "numpy",
    "onnx",
    "onnxruntime",
    "pillow_heif",
    "ray",
    "rich",
    "torch",
    "typer",
    "watchdog",
}
OF_THE_WORKER = {"dramatiq", "redis", "sqlalchemy", "starlette"}
OF_THE_CONTROL_PLANE = {"dramatiq", "minio", "pydantic", "redis", "sqlalchemy"}
PROCESSES_OF_A_NODE = (
    "app.edge.agent.program",
    "app.edge.joint.cloud",
    "app.edge.joint.edge",
    "app.edge.video.runner.main",
    "app.edge.video.stage_host.child",
    "app.edge.video.stage_host.host",
)
PRELOAD = """
from app.standalone.preloaded_parent import preload
preload(json.loads(sys.argv[1]))
"""
IMPORT = """
import importlib
for module in json.loads(sys.argv[1]):
    importlib.import_module(module)
"""
NODE = """
import app.cli.node, app.bootstrap.edge, app.edge.agent.program
app.bootstrap.edge.drivers(app.edge.agent.cameras.Cameras())
"""
PREDICTOR = """
from pathlib import Path
import app.inference.annotations, app.inference.picture_codec, app.inference.sources
from app.inference.model_card import MODEL_CARD, Format, ModelCard
from app.inference.predictor_options import PredictorOptions
from app.inference.predictor_factory import open_predictor
card = MODEL_CARD.read(MODEL_CARD.write(ModelCard("m", Format.ONNX, "0", 1, preprocess={"scale": 1})))
open_predictor(card, Path(json.loads(sys.argv[1])), None, PredictorOptions())
"""
WEB = """
from app.cli.up.web_server import configure
server = configure("127.0.0.1", 0)
server.app, server.factory = "app.bootstrap.health:healthz", False
server.load()
"""
COMPARISON = """
from pathlib import Path
from app.conversion.toolchains.host.canonical import compare_files
compare_files("out.nef", *[Path(json.loads(sys.argv[1]))] * 2)
"""
REPORT = """
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules} | {*sys.modules})))
"""


def loaded_by(program: str, argument: object = None) -> set[str]:
    """The packages and modules that are loaded after it."""
    command = [sys.executable, "-c", f"import json, sys{program}{REPORT}", json.dumps(argument)]
    ended = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    return set(json.loads(ended.stdout.splitlines()[-1]))


@pytest.fixture(scope="module")
def preloaded() -> set[str]:
    """No source is kept that was read for documentation."""
    return loaded_by(f"{PRELOAD}\nimport linecache\nassert not linecache.cache", PRELOADED)


def test_no_heavy_library_is_loaded_before_somebody_needs_it(preloaded: set[str]) -> None:
    assert preloaded & HEAVY == set()


def test_of_the_dialects_of_sql_the_one_is_loaded_that_is_used(preloaded: set[str]) -> None:
    assert {name for name in preloaded if name.startswith("sqlalchemy.dialects.postgresql")} == set()


def test_the_web_loads_what_nodes_speak_with_when_one_connects() -> None:
    loaded = loaded_by(WEB)
    assert "uvicorn.protocols.http.httptools_impl" in loaded
    assert "websockets" not in loaded


def test_what_most_parts_use_is_shared(preloaded: set[str]) -> None:
    assert {"dramatiq", "jinja2", "pydantic", "redis", "sqlalchemy", "uvicorn"} <= preloaded


def test_a_stage_loads_nothing_that_only_its_worker_uses() -> None:
    """Each worker waits at its start until its fork server has loaded everything."""
    loaded = loaded_by(IMPORT, libraries.of_stages([Stage.BIE, Stage.NEF]))
    assert "onnxruntime" in loaded
    assert loaded & OF_THE_WORKER == set()


def test_an_edge_node_needs_no_redis_no_sql_and_no_object_store() -> None:
    assert loaded_by(NODE) & OF_THE_CONTROL_PLANE == set()


def test_the_processes_of_a_node_start_without_what_only_the_control_plane_uses() -> None:
    """Nor do they load what runs models, before there is one: each start of them waits for all of it."""
    assert loaded_by(IMPORT, PROCESSES_OF_A_NODE) & {*OF_THE_CONTROL_PLANE, "av", "onnxruntime"} == set()


def test_a_node_needs_no_service_of_the_web_to_look_at_pictures(tmp_path: Path) -> None:
    loaded = loaded_by(PREDICTOR, str(save(tmp_path, brightest_channel())))
    assert "onnxruntime" in loaded
    assert loaded & {*OF_THE_CONTROL_PLANE, "starlette", "onnx", "av", "kp"} == set()


def test_two_nefs_are_compared_without_what_else_onnxruntime_has_for_its_format(tmp_path: Path) -> None:
    (tmp_path / "out.nef").write_bytes(b"neither")
    loaded = loaded_by(COMPARISON, str(tmp_path / "out.nef"))
    assert "ort_flatbuffers_py" in loaded
    assert "torch" not in loaded
