"""Runs a JointInferenceService for an agent: its orders become worker processes, and their reports go to the web
server."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from starlette.routing import BaseRoute

from app.edge.agent.cameras import SOURCE_NOT_OFFERED, Cameras
from app.edge.agent.driver import Agent, Allocation, Blob, ProcessSpec, WorkRefused
from app.edge.joint.driver_routes import routes
from app.edge.joint.work import Work
from app.edge.work_file import VARIABLE
from app.inference.sources.allow_list import SourceNotOffered, resolve_source
from app.joint_inference.model.content import OrderContent
from app.joint_inference.model.resource import PLURAL, Role
from app.joint_inference.model.sources import BROADCAST, NamedSource, read_sources
from app.kit.network.addresses import reachable_url, without_credentials
from app.kit.text.json_values import JsonObject
from app.nodes.model import Order

MODULES = {Role.EDGE: "app.edge.joint.edge", Role.CLOUD: "app.edge.joint.cloud"}
KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
VIDEO = "video:"
"""Prefix of the id of a video of the node, as a source."""
PARAMETER = "PARAM_"
"""Prefix of each name, so that a parameter never decides which code the interpreter or a library loads."""
SCRIPT_REFUSED, SCRIPT_NOT_FOUND = "ScriptRefused", "ScriptNotFound"


class JointDriver:
    """The WorkloadDriver of JointInferenceServices."""

    kind = PLURAL

    def __init__(self, cameras: Cameras, media_server: str = "") -> None:
        """Creates the driver.

        Args:
            cameras: of this node, with the sources that services may open as a stream.
            media_server: the URL below which pictures are broadcast, perhaps with user and password; empty: none.
        """
        self._cameras = cameras
        self._media_server = media_server

    def blobs(self, order: Order) -> list[Blob]:
        content = content_of(order)
        cards = [content.model, content.former] if content.former else [content.model]
        sizes = {card.sha256: card.size_bytes for card in cards}
        sizes |= {card.twin_sha256: card.twin_size_bytes for card in cards if card.twin_sha256}
        return [Blob(sha256, size_bytes) for sha256, size_bytes in sizes.items()]

    def worker_name(self, order: Order) -> str:
        """Returns the name in the service, even for an order that cannot be run."""
        try:
            return str(order.content["resource"]["spec"][f"{order.key.part}Worker"]["name"])
        except (KeyError, TypeError):
            return f"{order.name}-{order.key.part}"

    def prepare(self, order: Order, place: Allocation) -> ProcessSpec:
        """Writes the file that tells an order's worker what to do, and returns how it is started."""
        content = content_of(order)
        is_encrypted = _serves_encrypted(content, place)
        worker = content.worker
        media_server = self._media_server if worker.parameters.get(BROADCAST) and worker.is_builtin else ""
        work = Work(
            content,
            model=place.blobs[content.model.sha256],
            twin=place.blobs.get(content.model.twin_sha256),
            host=place.host,
            port=place.port,
            folder=place.folder,
            agent_url=place.agent_url,
            node=place.node,
            provider=place.provider,
            sources=self._read_sources(content),
            media_server=media_server,
            former=place.blobs.get(content.former.sha256) if content.former else None,
            former_twin=place.blobs.get(content.former.twin_sha256) if content.former else None,
            tls=place.tls.credentials,
            is_encrypted=is_encrypted,
        )
        file = place.folder / "work.json"
        depends_on = {**_select_dependencies(content), **({"media_server": media_server} if media_server else {})}
        restarts = worker.parameters.get("restart_policy") != "never"
        if worker.is_builtin:
            work.write(file)
            command = [sys.executable, "-m", MODULES[content.role]]
            return ProcessSpec(
                command,
                {VARIABLE: str(file)},
                health_url=_build_health_url(work),
                is_encrypted=is_encrypted,
                restarts=restarts,
                depends_on=depends_on,
            )
        script = script_of(worker.script_dir, worker.script_boot_file, place.scripts)
        work.write(file)
        environment = {**script_environment(work), VARIABLE: str(file)}
        return ProcessSpec(
            [sys.executable, str(script)],
            environment,
            listens=content.role is Role.CLOUD,
            restarts=restarts,
            depends_on=depends_on,
        )

    def sources(self, order: Order) -> Collection[str]:
        return [one.source for one in self._read_sources(content_of(order))]

    def _read_sources(self, content: OrderContent) -> tuple[NamedSource, ...]:
        """Returns what the bundled worker may open as its streams.

        Raises:
            WorkRefused: A source is not offered, or the parameter cannot be read.
        """
        text = content.worker.parameters.get("source", "").strip()
        if not text or content.role is not Role.EDGE or not content.worker.is_builtin:
            return ()
        try:
            sources = read_sources(text)
        except ValueError as error:
            raise WorkRefused(f"The parameter source is to be {error}.", reason="BadParameters") from None
        return tuple(NamedSource(one.name, self._resolve(one.source, content)) for one in sources)

    def _resolve(self, source: str, content: OrderContent) -> str:
        """Returns a source as it is opened."""
        if source.startswith(VIDEO):
            source = self._source_of_video(source.removeprefix(VIDEO).strip(), content)
        try:
            return resolve_source(source, *self._list_offered(content))
        except SourceNotOffered as error:
            raise WorkRefused(error.message, reason=SOURCE_NOT_OFFERED, hint=error.hint) from None

    def _source_of_video(self, video_id: str, content: OrderContent) -> str:
        """Returns the source of a video of the node.

        Raises:
            WorkRefused: It does not exist, or is withheld from the service's user; the words are the same.
        """
        camera = self._cameras.by_id().get(video_id)
        if camera is None or video_id in content.withheld.get("videos", ()):
            raise WorkRefused(
                f"This node has no video {video_id!r}.", reason="VideoNotFound", hint="Its page lists its videos."
            )
        return camera.source

    def _list_offered(self, content: OrderContent) -> tuple[list[str], list[str]]:
        """Returns the sources offered to the user of this service, and those withheld."""
        offered: list[str] = []
        withheld: list[str] = []
        for source in self._cameras.sources:
            (withheld if without_credentials(source) in content.withheld.get("sources", ()) else offered).append(source)
        for camera in self._cameras.by_id().values():
            with suppress(SourceNotOffered):
                source = self._cameras.source_of(camera)
                (withheld if camera.id in content.withheld.get("videos", ()) else offered).append(source)
        return offered, withheld

    def routes(self, agent: Agent) -> list[BaseRoute]:
        return routes(agent, self.worker_name)

    def offers(self, agent: Agent) -> Mapping[str, Any]:  # noqa: ARG002  # the protocol's
        names = [without_credentials(source) for source in self._cameras.sources]
        return {"sources": {name: {} for name in names}} if names else {}


def content_of(order: Order) -> OrderContent:
    """Reads the content of an order.

    Raises:
        WorkRefused: It cannot be run.
    """
    if not order.content.get("model"):
        raise WorkRefused(
            "This node was told of the service by hand, and not where its model is.",
            reason="ModelMissing",
            hint="The web sends that with its order.",
        )
    try:
        content = OrderContent.from_json(order.content)
        _ = content.specification
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise WorkRefused(f"The order cannot be read: {type(error).__name__}: {error}.", reason="BadOrder") from None
    return content


def _select_dependencies(content: OrderContent) -> JsonObject:
    """Returns everything but the other worker, since a change of the edge's thresholds must not restart the big model;
    and without the model of a comparison, since its end needs no restart."""
    own = {name: value for name, value in content.resource["spec"].items() if name == f"{content.role}Worker"}
    return {**replace(content, former=None).to_json(), "resource": own}


def _serves_encrypted(content: OrderContent, place: Allocation) -> bool:
    """Returns whether the worker accepts encrypted connections only. Clear text that the node refuses, to serve or to
    send, refuses the work."""
    if content.role is Role.EDGE:
        if content.big_model is not None:
            place.tls.refuse_clear_text(content.big_model.url, content.specification.cloud.node)
        return False
    if not content.worker.is_builtin:
        place.tls.refuse_clear_text("", place.node)
        return False
    place.tls.require_credentials()
    return place.tls.is_serving


def script_environment(work: Work) -> dict[str, str]:
    """Returns the environment of a user's script: each parameter as PARAM_ and its name in upper case, and Sedna's
    variables."""
    content = work.content
    specification, worker = content.specification, content.worker
    address = urlsplit(content.big_model.url) if content.big_model else None
    return {
        **_read_parameters(worker.parameters),
        "WORKER_NAME": worker.name,
        "SERVICE_NAME": work.service,
        "NAMESPACE": work.namespace,
        "LC_SERVER": work.agent_url,
        "MODEL_URL": str(work.model),
        "BIG_MODEL_IP": (address.hostname or "") if address else "",
        "BIG_MODEL_PORT": str(address.port or 80) if address else "",
        "BIG_MODEL_BIND_IP": work.host,
        "BIG_MODEL_BIND_PORT": str(work.port),
        "BIG_MODEL_SECRET": content.secret,
        "HEM_NAME": specification.hard_example,
        "HEM_PARAMETERS": json.dumps(
            [{"key": key, "value": value} for key, value in specification.hard_example_parameters.items()]
        ),
    }


def _read_parameters(parameters: Mapping[str, str]) -> dict[str, str]:
    """Returns the parameters whose names can be variables."""
    return {
        f"{PARAMETER}{key.upper()}": value
        for key, value in parameters.items()
        if KEY.fullmatch(key) and "\0" not in value
    }


def _build_health_url(work: Work) -> str:
    path = "healthz" if work.content.role is Role.EDGE else work.service
    url = reachable_url(work.host, work.port)
    return f"{url.replace('http:', 'https:', 1) if work.is_encrypted else url}/{path}"


def script_of(folder: str, boot_file: str, roots: Sequence[Path]) -> Path:
    """The file of a user's script, links and `..` resolved. It must lie below a folder that the node opens for scripts.

    Args:
        folder: below one of the roots; an absolute one may also start with that of a root.
        boot_file: relative to the folder.
        roots: the folders that the node's administrator has opened.

    Raises:
        WorkRefused: there is no such file there.
    """
    named = f"{folder}/{boot_file}"
    if not roots:
        raise WorkRefused(
            f"This node runs no users' scripts, and {named} is one.",
            reason=SCRIPT_REFUSED,
            hint="Start its agent with --scripts and a folder, or leave scriptDir empty for the bundled worker.",
        )
    if "\0" in named:
        raise WorkRefused("The name of a script holds no NUL.", reason=SCRIPT_REFUSED)
    candidates = [(root, path) for root in roots for path in _list_candidates(folder, boot_file, root)]
    inside = [path.resolve() for root, path in candidates if path.resolve().is_relative_to(root.resolve())]
    blobs = next((path for path in inside if path.is_file()), None)
    if blobs is not None:
        return blobs
    if len(inside) < len(candidates):
        raise WorkRefused(
            f"{named} lies outside of the folders for scripts of this node.",
            reason=SCRIPT_REFUSED,
            hint=f"These are {', '.join(map(str, roots))}.",
        )
    raise WorkRefused(
        f"There is no {named} on this node.",
        reason=SCRIPT_NOT_FOUND,
        hint=f"Put it below {' or '.join(map(str, roots))}.",
    )


def _list_candidates(folder: str, boot_file: str, root: Path) -> list[Path]:
    below = root / folder.lstrip("/") / boot_file
    return [below] if not folder.startswith("/") else [Path(folder) / boot_file, below]
