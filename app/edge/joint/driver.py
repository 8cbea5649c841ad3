"""How an agent carries a JointInferenceService: its orders become worker processes, and what these say goes up."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from starlette.routing import BaseRoute

from app.edge.agent.driver import Agent, Blob, Place, ProcessSpec, WorkRefused
from app.edge.joint.driver_routes import routes
from app.edge.joint.script import script_of
from app.edge.joint.work import VARIABLE, Work
from app.inference.sources.allow_list import SourceNotOffered, named, resolved
from app.joint_inference.model.content import Content
from app.joint_inference.model.resource import PLURAL, Role
from app.kit.network.addresses import reachable_url
from app.nodes.model import Order

MODULES = {Role.EDGE: "app.edge.joint.edge", Role.CLOUD: "app.edge.joint.cloud"}
KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
PARAMETER = "PARAM_"
"""Before each name: a parameter decides what a script does, never which code its interpreter or a library loads."""
SOURCE_NOT_OFFERED = "SourceNotOffered"


class JointDriver:
    kind = PLURAL

    def __init__(self, sources: Sequence[str] = (), videos: Sequence[str] = ()) -> None:
        """sources, and videos by their ids: what services may open as a stream, see inference.sources.allow_list."""
        self._cameras = {
            "sources": [(named(source), source) for source in sources],
            "videos": [(str(number), source) for number, source in enumerate(videos)],
        }

    def blobs(self, order: Order) -> list[Blob]:
        card = content_of(order).model
        found = [Blob(card.sha256, card.size_bytes)]
        return [*found, Blob(card.twin_sha256, card.twin_size_bytes)] if card.twin_sha256 else found

    def worker_name(self, order: Order) -> str:
        """Also of an order that cannot be run."""
        try:
            return str(order.content["resource"]["spec"][f"{order.key.part}Worker"]["name"])
        except (KeyError, TypeError):
            return f"{order.name}-{order.key.part}"

    def program(self, order: Order, place: Place) -> ProcessSpec:
        content = content_of(order)
        work = Work(
            content,
            model=place.blobs[content.model.sha256],
            twin=place.blobs.get(content.model.twin_sha256),
            host=place.host,
            port=place.port,
            folder=place.folder,
            agent_url=place.agent_url,
            node=place.node,
            source=self._source(content),
        )
        file = place.folder / "work.json"
        worker = content.worker
        restarts = worker.parameters.get("restart_policy") != "never"
        if worker.is_builtin:
            work.write(file)
            command = [sys.executable, "-m", MODULES[content.role]]
            return ProcessSpec(
                command,
                {VARIABLE: str(file)},
                health_url=_health_url(work),
                restarts=restarts,
                depends_on=_depends_on(content),
            )
        script = script_of(worker.script_dir, worker.script_boot_file, place.scripts)
        work.write(file)
        environment = {**script_environment(work), VARIABLE: str(file)}
        return ProcessSpec(
            [sys.executable, str(script)],
            environment,
            listens=content.role is Role.CLOUD,
            restarts=restarts,
            depends_on=_depends_on(content),
        )

    def _source(self, content: Content) -> str:
        """What the bundled worker may open. Raises WorkRefused."""
        source = content.worker.parameters.get("source", "").strip()
        if not source or content.role is not Role.EDGE or not content.worker.is_builtin:
            return ""
        try:
            return resolved(source, *self._offered(content))
        except SourceNotOffered as error:
            raise WorkRefused(error.message, reason=SOURCE_NOT_OFFERED, hint=error.hint) from None

    def _offered(self, content: Content) -> tuple[list[str], list[str]]:
        """To the user of this service, and what is withheld from them."""
        found: tuple[list[str], list[str]] = [], []
        for kind, cameras in self._cameras.items():
            closed = content.withheld.get(kind, ())
            for name, source in cameras:
                found[name in closed].append(source)
        return found

    def routes(self, agent: Agent) -> list[BaseRoute]:
        return routes(agent, self.worker_name)

    def offers(self, agent: Agent) -> Mapping[str, Any]:  # noqa: ARG002  # the Carrier's
        names = [name for name, _ in self._cameras["sources"]]
        return {"sources": {name: {} for name in names}} if names else {}


def content_of(order: Order) -> Content:
    """Raises WorkRefused."""
    if not order.content.get("model"):
        raise WorkRefused(
            "This node was told of the service by hand, and not where its model is.",
            reason="ModelMissing",
            hint="The web sends that with its order.",
        )
    try:
        found = Content.from_json(order.content)
        _ = found.specification
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise WorkRefused(f"The order cannot be read: {type(error).__name__}: {error}.", reason="BadOrder") from None
    return found


def _depends_on(content: Content) -> dict[str, Any]:
    """Not the other worker: a change of the edge's thresholds is no reason to start the big model anew."""
    own = {name: value for name, value in content.resource["spec"].items() if name == f"{content.role}Worker"}
    return {**content.to_json(), "resource": own}


def script_environment(work: Work) -> dict[str, str]:
    """What a user's script finds: each parameter as PARAM_ and its name in upper case, and Sedna's names."""
    content = work.content
    specification, worker = content.specification, content.worker
    address = urlsplit(content.big_model.url) if content.big_model else None
    return {
        **_parameters(worker.parameters),
        "WORKER_NAME": worker.name,
        "SERVICE_NAME": work.service,
        "NAMESPACE": work.namespace,
        "LC_SERVER": work.agent_url,
        "MODEL_URL": str(work.model),
        "BIG_MODEL_IP": (address.hostname or "") if address else "",
        "BIG_MODEL_PORT": str(address.port or 80) if address else "",
        "BIG_MODEL_BIND_IP": work.host,
        "BIG_MODEL_BIND_PORT": str(work.port),
        "HEM_NAME": specification.hard_example,
        "HEM_PARAMETERS": json.dumps(
            [{"key": key, "value": value} for key, value in specification.hard_example_parameters.items()]
        ),
    }


def _parameters(parameters: Mapping[str, str]) -> dict[str, str]:
    """Those whose names can be variables."""
    return {
        f"{PARAMETER}{key.upper()}": value
        for key, value in parameters.items()
        if KEY.fullmatch(key) and "\0" not in value
    }


def _health_url(work: Work) -> str:
    path = "healthz" if work.content.role is Role.EDGE else work.service
    return f"{reachable_url(work.host, work.port)}/{path}"
