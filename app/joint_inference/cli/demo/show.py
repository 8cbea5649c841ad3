"""The demonstration from its first sentence to its table, and on until Ctrl-C."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from functools import partial

import numpy as np
from rich.table import Table

from app.joint_inference.cli.demo.deployment import DemoDeployment, running_deployment
from app.joint_inference.cli.demo.models import (
    BIG,
    CLASSES,
    SMALL,
    Digits,
    Layer,
    draw_digits,
    probabilities,
    to_onnx,
    train,
)
from app.joint_inference.cli.demo.scores import ScoreRow, Scores, scores_of
from app.joint_inference.cli.demo.stream import stream
from app.joint_inference.model.resource import API_VERSION, KIND
from app.kit.cli.command import Exit
from app.kit.cli.tables import table_of
from app.kit.text.json_values import JsonObject
from app.standalone.demonstration import CONSOLE, Say, run_until_ended

NAMESPACE, NAME = "default", "digits"
SMALL_MODEL, BIG_MODEL = "digits-small", "digits-big"
TRAINED_ON, HELD_OUT = 4000, 600
THRESHOLD = 0.55
"""Of the cross entropy's certainty: about two in five of these pictures are below it."""
DEADLINE_MS = 5000
"""A demonstration is no place for a busy machine to look like a broken line."""


def demonstrate(*, port: int, is_once: bool, is_kept: bool) -> Exit:
    return run_until_ended(partial(_demonstrate, port=port, is_once=is_once, is_kept=is_kept), is_once=is_once)


def _demonstrate(say: Say, *, port: int, is_once: bool, is_kept: bool) -> Exit:
    say(f"Drawing {TRAINED_ON} digits and training a small and a big classifier on them.")
    drawn, held_out = draw_digits(TRAINED_ON, seed=1), draw_digits(HELD_OUT, seed=4)
    small, big = train(drawn, SMALL, seed=0), train(drawn, BIG, seed=0)
    say("Starting the web, a node cloud0 and a node edge0.")
    with running_deployment(port=port, is_kept=is_kept, notice=say) as deployment:
        if is_kept:
            say(f"Data and logs lie in {deployment.folder}.")
        try:
            code = _play(deployment, say, (small, big), held_out)
            if not is_once:
                say(f"Look at it: {deployment.url}/ui/services/{NAMESPACE}/{NAME}   Ctrl-C ends everything.")
                threading.Event().wait()
            return code
        finally:
            deployment.end(NAMESPACE, NAME)


def _play(deployment: DemoDeployment, say: Say, models: tuple[list[Layer], list[Layer]], held_out: Digits) -> Exit:
    small, big = models
    address = start(deployment, small, big, say)
    say(f"Sending {HELD_OUT} other digits to the edge worker at {address}.")
    cloud = np.argmax(probabilities(big, held_out), axis=1)
    scores = scores_of(list(stream(address, NAME, held_out, cloud)))
    CONSOLE.print(table(scores))
    say(verdict(scores))
    return Exit.OK if scores.is_worth_it else Exit.FAILED


def start(deployment: DemoDeployment, small: list[Layer], big: list[Layer], say: Say, prefix: str = "") -> str:
    """Starts the service.

    Args:
        small: layers of the model at the edge.
        big: layers of the model in the cloud.
        say: prints a line.
        prefix: of the names of models and service.

    Returns:
        host:port of its edge worker, once it runs.

    Raises:
        CannotStart: It does not run; with its last words.
    """
    for name, layers in ((SMALL_MODEL, small), (BIG_MODEL, big)):
        content = to_onnx(layers)
        deployment.bring(f"{prefix}{name}", content, labels=[str(digit) for digit in range(CLASSES)])
        say(f"Model {prefix}{name}: {len(content) / 1000:.0f} kB.")
    deployment.await_nodes(prefix)
    deployment.client.apply(service(prefix))
    own = f"{prefix}{NAME}"
    return deployment.serving(NAMESPACE, own, lambda text: say(f"Service {NAMESPACE}/{own}: {text}"))


def service(prefix: str = "") -> JsonObject:
    """As somebody would write it down. prefix: of all names."""
    return resource(
        NAME,
        (SMALL_MODEL, BIG_MODEL),
        "CrossEntropy",
        {"threshold_cross_entropy": str(THRESHOLD), "deadline_ms": str(DEADLINE_MS)},
        prefix,
    )


def resource(
    name: str, models: tuple[str, str], algorithm: str, parameters: Mapping[str, str], prefix: str = ""
) -> JsonObject:
    """A service of the two nodes.

    Args:
        models: of the edge and of the cloud.
        algorithm: which samples are hard.
        parameters: of the edge worker.
        prefix: of all names.
    """
    bundled = {"scriptDir": "", "scriptBootFile": "", "frameworkType": "onnx", "frameworkVersion": ""}
    small, big = models
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": f"{prefix}{name}", "namespace": NAMESPACE},
        "spec": {
            "edgeWorker": {
                "name": f"{name}-edge",
                "model": {"name": f"{prefix}{small}"},
                "nodeName": f"{prefix}edge0",
                "hardExampleAlgorithm": {"name": algorithm},
                "workerSpec": {
                    **bundled,
                    "parameters": [{"key": key, "value": value} for key, value in parameters.items()],
                },
            },
            "cloudWorker": {
                "name": f"{name}-cloud",
                "model": {"name": f"{prefix}{big}"},
                "nodeName": f"{prefix}cloud0",
                "workerSpec": bundled,
            },
        },
    }


def table(scores: Scores) -> Table:
    made = table_of("", "accuracy", "uploaded", "p50", "p95", "fallbacks")
    for column in made.columns[1:]:
        column.justify = "right"
    for row in scores.rows:
        made.add_row(
            row.way,
            f"{row.accuracy:.1%}",
            f"{row.upload:.0%}",
            _format_ms(row.p50_ms),
            _format_ms(row.p95_ms),
            _count(scores, row),
        )
    return made


def verdict(scores: Scores) -> str:
    gain = scores.cloud.accuracy - scores.edge.accuracy
    kept = (scores.joint.accuracy - scores.edge.accuracy) / gain if gain else 0.0
    return (
        f"Joint inference keeps {kept:.0%} of what the cloud gains, and sends {scores.joint.upload:.0%} of the "
        f"pictures there. As many, but chosen by lot, would have given {scores.random.accuracy:.1%}."
    )


def _count(scores: Scores, row: ScoreRow) -> str:
    return str(row.fallbacks) if row is scores.joint else ""


def _format_ms(value: float | None) -> str:
    return "" if value is None else f"{value:.1f} ms"
