"""The demonstration on a running product: its job runs until this is stopped, and nothing remains."""

from __future__ import annotations

import tempfile
import threading
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

from app.kit.cli.command import CannotStart, Exit
from app.kit.errors import ModelmillError
from app.standalone.demonstration import Say, remove_each, remove_models_and_nodes, until_ended
from app.standalone.nodes import run_attached_nodes
from app.video.cli.demo.catalogue import SAMPLE, add_stages
from app.video.cli.demo.deployment import CLOUD, EDGE, node_parts, videos_of
from app.video.cli.demo.show import CLIP, await_edge, make_sample
from app.video.cli.demo.walkthrough import submit
from app.video.client import VideoClient

PREFIX = "video-demo-"
"""Of the nodes, so that none of the user's is touched."""
NAME = "Demonstration: drawn heads"


def demonstrate_at(url: str) -> Exit:
    """Runs until SIGTERM or Ctrl-C.

    Args:
        url: Of the product, on this machine, which asks for no account.

    Raises:
        CannotStart: A stage of its name is somebody's, or its node does not come.
        SourceUnusable: PyAV is not installed.
        ApiError: The API refused something.
    """
    require_free_stages(url)
    farewell = "Removing the job, its stages, models and nodes."
    return until_ended(partial(_demonstrate, url), partial(_remove, url), farewell)


def _demonstrate(url: str, say: Say) -> None:
    _remove(url, say)
    with ExitStack() as stack:
        say("Drawing a clip: four heads that turn and nod, and somebody who walks past. Making models that find them.")
        sample = make_sample(None, stack, has_walker=True)
        videos = videos_of([f"drawn heads={sample / CLIP}"])
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="modelmill-video-")))
        client = stack.enter_context(VideoClient(url))
        say("Starting a node at the edge, which has the clip, and one in the cloud.")
        stack.enter_context(run_attached_nodes(node_parts(url, folder, videos, prefix=PREFIX), folder, say))
        say(f"Stages: {', '.join(add_stages(url, sample, say, SAMPLE))}.")
        if not await_edge(url, PREFIX):
            raise CannotStart(f"the node {PREFIX}{EDGE} does not come", hint="The log of the demonstration says why.")
        uid = submit(client, node=f"{PREFIX}{EDGE}", name=NAME)
        say(f"The job {uid} runs. Its rules count who walks past, and when three heads are in the row.")
        say(f"Look at it: {url.rstrip('/')}/ui/video/{uid}   Ctrl-C removes everything.")
        stack.callback(_end, client, uid)
        threading.Event().wait()


def require_free_stages(url: str) -> None:
    """Checks that the demonstration replaces nothing.

    Raises:
        CannotStart: A stage that somebody made has one of its names.
    """
    with VideoClient(url) as client:
        names = {recipe.name for recipe in SAMPLE.recipes}
        foreign = [stage["name"] for stage in client.stages() if stage["name"] in names and not _is_ours(stage)]
    if foreign:
        raise CannotStart(
            f"there is a stage {foreign[0]} already, which the demonstration would replace",
            hint="Remove it, or use `modelmill video demo`, which starts a Modelmill of its own.",
        )


def _is_ours(stage: dict[str, object]) -> bool:
    return all(str(name) in SAMPLE.decoders for names in _group_models(stage["models"]) for name in names)


def _group_models(models: object) -> list[list[str]]:
    return [names if isinstance(names, list) else [names] for names in models] if isinstance(models, list) else []


def _end(client: VideoClient, uid: str) -> None:
    with suppress(ModelmillError):
        client.cancel(uid)
        client.delete(uid)


def _remove(url: str, say: Say) -> None:
    """All of it, also what a demonstration left that was killed."""
    with VideoClient(url) as client:
        for job in list(client.jobs(q=f"{PREFIX}{EDGE}")):
            _end(client, str(job["uid"]))
        ours = [stage["name"] for stage in client.stages() if _is_ours(stage)]
        remove_each("stage", ours, client.remove_stage, say)
    remove_models_and_nodes(url, SAMPLE.decoders, [f"{PREFIX}{name}" for name in (CLOUD, EDGE)], say)
