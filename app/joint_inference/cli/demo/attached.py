"""The demonstration on a running product: its service answers until this is stopped, and nothing remains."""

from __future__ import annotations

import tempfile
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np

from app.joint_inference.cli.demo.deployment import NODES, PATIENCE_S, POLL_S, DemoDeployment, node_parts
from app.joint_inference.cli.demo.models import BIG, SMALL, draw_digits, probabilities, train
from app.joint_inference.cli.demo.show import BIG_MODEL, HELD_OUT, NAME, NAMESPACE, SMALL_MODEL, TRAINED_ON, start
from app.joint_inference.cli.demo.stream import stream
from app.joint_inference.client import JointClient
from app.kit.cli.command import Exit
from app.kit.clock import happens_within
from app.kit.errors import ModelmillError
from app.standalone.demonstration import Say, remove_models_and_nodes, until_ended
from app.standalone.nodes import run_attached_nodes

PREFIX = "joint-demo-"
"""Of all names, so that nothing of the user's is touched."""
PAUSE_S = 0.1
"""Between two pictures: something is to be seen for long, and the machine has other work."""


def demonstrate_at(url: str) -> Exit:
    """Runs until SIGTERM or Ctrl-C.

    Args:
        url: Of the product, on this machine, which asks for no account.

    Raises:
        CannotStart: The service does not run.
        ApiError: The API refused something.
    """
    farewell = "Removing the service, its models and its nodes."
    return until_ended(partial(_demonstrate, url), partial(_remove, url), farewell)


def _demonstrate(url: str, say: Say) -> None:
    _remove(url, say)
    say(f"Drawing {TRAINED_ON} digits and training a small and a big classifier on them.")
    drawn, held_out = draw_digits(TRAINED_ON, seed=1), draw_digits(HELD_OUT, seed=4)
    small, big = train(drawn, SMALL, seed=0), train(drawn, BIG, seed=0)
    cloud = np.argmax(probabilities(big, held_out), axis=1)
    with tempfile.TemporaryDirectory(prefix="modelmill-joint-") as place, JointClient(url) as client:
        folder = Path(place)
        say("Starting a node at the edge and one in the cloud.")
        with run_attached_nodes(node_parts(url, folder, PREFIX), folder, say):
            deployment = DemoDeployment(url, folder, client)
            deployment.await_nodes(PREFIX)
            _await_end(client)
            try:
                address = start(deployment, small, big, say, PREFIX)
                say("Digits go to the edge worker, one after the other. What it is not sure of goes to the cloud.")
                say(
                    f"Look at it: {url.rstrip('/')}/ui/services/{NAMESPACE}/{PREFIX}{NAME}   Ctrl-C removes everything."
                )
                while True:
                    for _ in stream(address, f"{PREFIX}{NAME}", held_out, cloud):
                        time.sleep(PAUSE_S)
            finally:
                deployment.end(NAMESPACE, f"{PREFIX}{NAME}")


def _await_end(client: JointClient) -> None:
    """Of the service that a killed demonstration has left: its nodes, which are back, end its workers first."""
    own = f"{PREFIX}{NAME}"
    happens_within(PATIENCE_S, lambda: own not in {one["name"] for one in client.services(q=own)}, poll_s=POLL_S)


def _remove(url: str, say: Say) -> None:
    """All of it, also what a demonstration left that was killed."""
    with JointClient(url) as joint, suppress(ModelmillError):
        joint.delete(NAMESPACE, f"{PREFIX}{NAME}")
    models, nodes = (SMALL_MODEL, BIG_MODEL), NODES
    remove_models_and_nodes(url, [f"{PREFIX}{name}" for name in models], [f"{PREFIX}{name}" for name in nodes], say)
