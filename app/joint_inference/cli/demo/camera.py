"""The demonstration with a camera: the edge worker reads it, and goes on until Ctrl-C."""

from __future__ import annotations

import time
from pathlib import Path

from app.joint_inference.cli.demo.deployment import PATIENCE_S, DemoDeployment, running_deployment
from app.joint_inference.cli.demo.show import DEADLINE_MS, NAMESPACE, resource
from app.joint_inference.model.status import current_of
from app.kit.cli.command import Exit
from app.kit.errors import BadInput
from app.kit.network.addresses import without_credentials
from app.standalone.camera import require_camera
from app.standalone.demonstration import Say, run_until_ended
from app.standalone.sample_models import faces

NAME = "camera"
MODELS = ("camera-small", "camera-big")
SIZES = ((160, 120), (640, 480))
"""Pixels: inputs of the models that are generated, of the edge and of the cloud."""
PARAMETERS = {"source": "video:0", "fps": "5", "deadline_ms": str(DEADLINE_MS), "max_upload_ratio": "0.3"}
ONCE_PAUSE_S, PAUSE_S = 0.5, 10.0
"""Between two looks at the counts."""
AT_HAND = (
    "The models are generated: they take for a face what has the color of a drawn one, and find real ones badly. For "
    "real models give --edge-model and --cloud-model."
)


def demonstrate_camera(
    camera: str, models: tuple[Path, Path] | None, *, port: int, is_once: bool, is_kept: bool
) -> Exit:
    """Runs until Ctrl-C.

    Args:
        camera: a device or a URL.
        models: ONNX of the edge and of the cloud; None: generated ones.
        port: of the web; 0: any that is free.
        is_once: only until the first picture has been answered.
        is_kept: the folder stays.

    Raises:
        CannotStart: A process or the service does not start.
        BadInput: There is no such camera or file.
        SourceUnusable: The camera cannot be opened, or PyAV is not installed.
        ApiError: The API refused something, such as two models for different tasks.
    """
    for file in models or ():
        if not file.is_file():
            raise BadInput(f"there is no file {file}", hint="Give the path of an ONNX.")

    def demonstrated(say: Say) -> Exit:
        say(f"Opening the camera {without_credentials(camera)}.")
        require_camera(camera)
        say(AT_HAND if models is None else f"Models are {models[0]} at the edge and {models[1]} in the cloud.")
        say("Starting the web, a node cloud0 and a node edge0.")
        with running_deployment(port=port, is_kept=is_kept, notice=say, camera=camera) as deployment:
            if is_kept:
                say(f"Data and logs lie in {deployment.folder}.")
            try:
                return _run_answers(deployment, models, say, is_once=is_once)
            finally:
                deployment.end(NAMESPACE, NAME)

    return run_until_ended(demonstrated, is_once=is_once)


def service() -> dict[str, object]:
    """As somebody would write it down."""
    return resource(NAME, MODELS, "IBT", PARAMETERS)


def _run_answers(deployment: DemoDeployment, models: tuple[Path, Path] | None, say: Say, *, is_once: bool) -> Exit:
    _bring_models(deployment, models)
    deployment.await_nodes()
    deployment.client.apply(service())
    deployment.serving(NAMESPACE, NAME, lambda text: say(f"Service {NAMESPACE}/{NAME}: {text}"))
    if not is_once:
        say(f"Look at it: {deployment.url}/ui/services/{NAMESPACE}/{NAME}   Ctrl-C ends everything.")
    deadline, last = time.monotonic() + PATIENCE_S, ""
    while True:
        record = deployment.client.service(NAMESPACE, NAME)
        status = record["resource"]["status"]
        counts = {metric["key"]: metric["value"] for metric in status.get("metrics") or ()}
        pictures = int(counts.get("inferenceNumber", 0))
        text = (
            f"{pictures} pictures, {counts.get('hardExampleNumber', 0)} of them hard, "
            f"{counts.get('uploadNumber', 0)} answered by the cloud."
        )
        if pictures and text != last:
            last = text
            say(text)
        if is_once and pictures:
            return Exit.OK
        if is_once and time.monotonic() > deadline:
            condition = current_of(status) or {}
            say(f"No picture was answered in {PATIENCE_S:.0f} s. {condition.get('message', '')}".rstrip())
            return Exit.FAILED
        time.sleep(ONCE_PAUSE_S if is_once else PAUSE_S)


def _bring_models(deployment: DemoDeployment, models: tuple[Path, Path] | None) -> None:
    for number, name in enumerate(MODELS):
        if models is not None:
            deployment.bring_file(name, models[number], decoder="auto")
            continue
        file = deployment.folder / f"{name}.onnx"
        file.write_bytes(faces(*SIZES[number]))
        deployment.bring_file(name, file, decoder="ultraface")
