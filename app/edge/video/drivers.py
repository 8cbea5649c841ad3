"""Runs video for an agent: orders become job runners and a stage host, whose reports are sent to the web server. Also
the videos of a node: the public facts about each, and its problems."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from starlette.routing import BaseRoute

from app.edge.agent.cameras import SOURCE_NOT_OFFERED, Cameras
from app.edge.agent.driver import Agent, Allocation, Blob, ProcessSpec, WorkRefused
from app.edge.video import driver_routes
from app.edge.video.source_probes import SourceProbes
from app.edge.video.work import RunnerWork, ServicesWork
from app.edge.work_file import VARIABLE
from app.inference.sources.allow_list import SourceNotOffered
from app.inference.sources.factory import hide_credentials, is_stream, is_there
from app.inference.sources.facts import SourceFacts, facts_of
from app.inference.sources.hardware_decoder import hardware_decoder
from app.kit.errors import BadInput, ModelmillError
from app.kit.network.addresses import reachable_url, without_credentials
from app.kit.text.json_values import JsonObject
from app.nodes.cameras import Camera
from app.nodes.model import Order
from app.video.model.job import JOBS, SERVICES, JobContent, ServicesContent, StageHost

RUNNER, HOST = "app.edge.video.runner.main", "app.edge.video.stage_host.host"
WORK = "work.json"
Content = TypeVar("Content")
OF_JOBS_CHANGING, RECORDING = ("plan", "constraint", "hosts"), ("recording",)
OF_SERVICES_CHANGING = ("stages", "peers")


class JobDriver:
    """Runs the runners of video jobs."""

    kind = JOBS

    def __init__(self, cameras: Cameras, media_server: str = "", probes: SourceProbes | None = None) -> None:
        """See `Videos`.

        Args:
            cameras: of this node.
            media_server: the URL below which pictures are broadcast, perhaps with user and password; empty: none.
            probes: of live sources.
        """
        self.cameras, self._media_server = cameras, media_server
        self.videos = Videos(cameras, probes)
        self.videos.describe(None)  # logs what is wrong with one from the start
        self._runners: dict[str, driver_routes.RunnerAddress] = {}

    def blobs(self, order: Order) -> list[Blob]:  # noqa: ARG002  # a runner computes no stage
        return []

    def worker_name(self, order: Order) -> str:
        """Also of an order that cannot be run."""
        return str(order.content.get("uid") or order.key.uid)

    def prepare(self, order: Order, place: Allocation) -> ProcessSpec:
        """Writes what the program reads, and returns how it is started.

        Raises:
            WorkRefused: The order cannot be read, or this node does not offer what it needs.
        """
        content = _read(JobContent.from_json, order)
        source = self._resolve_source(content.video_id)
        self._write_work(content, source, place)
        here = {"source": source, "agent_url": place.agent_url, "media_server": self._media_server}
        return ProcessSpec(
            [sys.executable, "-m", RUNNER],
            {VARIABLE: str(place.folder / WORK)},
            health_url=f"{reachable_url(place.host, place.port)}/healthz",
            depends_on={
                **here,
                **_remove(order.content, OF_JOBS_CHANGING),
                "dag": _remove(order.content["dag"], RECORDING),
            },
        )

    def _resolve_source(self, video_id: str) -> str:
        """Returns what the runner may open."""
        cameras = self.cameras.by_id()
        if video_id not in cameras:
            raise WorkRefused(
                f"This node has no video {video_id!r}.",
                reason="VideoNotFound",
                hint=f"Its videos are {', '.join(cameras)}."
                if cameras
                else "Start its agent with --video, or add a camera on its page.",
            )
        try:
            return self.cameras.source_of(cameras[video_id])
        except SourceNotOffered as error:
            raise WorkRefused(error.message, reason=SOURCE_NOT_OFFERED, hint=error.hint) from None

    def _write_work(self, content: JobContent, source: str, place: Allocation) -> None:
        """Writes the runner's file, which a runner that is there already reads again, and notes where it will
        answer."""
        hosts = tuple(host for host in content.hosts if _may_be_called(host, place))
        work = RunnerWork(
            replace(content, hosts=hosts),
            source=source,
            host=place.host,
            port=place.port,
            folder=place.folder,
            agent_url=place.agent_url,
            node=place.node,
            tls=_list_files(place),
            media_server=self._media_server,
        )
        work.write(place.folder / WORK)
        self._runners[content.uid] = driver_routes.RunnerAddress(reachable_url(place.host, place.port), content.secret)

    def sources(self, order: Order) -> Collection[str]:
        return [self._resolve_source(_read(JobContent.from_json, order).video_id)]

    def routes(self, agent: Agent) -> list[BaseRoute]:
        return driver_routes.of_jobs(agent, self._runners.get)

    def offers(self, agent: Agent) -> Mapping[str, Any]:
        videos, server = self.videos.describe(agent.sources_read()), without_credentials(self._media_server)
        offers: JsonObject = {"address": agent.own_address, "videos": videos} if videos else {}
        offers |= {"media_server": server} if videos and server else {}
        with suppress(ImportError):  # without PyAV there is no video, as each of them says
            offers |= {"decoding": hardware_decoder().text} if videos else {}
        return offers


class StageHostDriver:
    """Runs the node's stage host."""

    kind = SERVICES

    def blobs(self, order: Order) -> list[Blob]:
        stages = _read(ServicesContent.from_json, order).stages.values()
        cards = [card for stage in stages for variant in stage.variants for card in variant]
        sizes = {card.sha256: card.size_bytes for card in cards}
        sizes |= {card.twin_sha256: card.twin_size_bytes for card in cards if card.twin_sha256}
        return [Blob(sha256, size) for sha256, size in sizes.items()]

    def worker_name(self, order: Order) -> str:
        return driver_routes.services_name(order.node)

    def prepare(self, order: Order, place: Allocation) -> ProcessSpec:
        """Writes what the program reads, and returns how it is started.

        Raises:
            WorkRefused: The order cannot be read, or this node does not offer what it needs.
        """
        place.tls.require_credentials()
        self._write_work(_read(ServicesContent.from_json, order), place)
        url = reachable_url(place.host, place.port)
        return ProcessSpec(
            [sys.executable, "-m", HOST],
            {VARIABLE: str(place.folder / WORK)},
            health_url=f"{url.replace('http:', 'https:', 1) if place.tls.is_serving else url}/healthz",
            is_encrypted=place.tls.is_serving,
            depends_on={"agent_url": place.agent_url, **_remove(order.content, OF_SERVICES_CHANGING)},
        )

    def _write_work(self, content: ServicesContent, place: Allocation) -> None:
        """Writes the host's file, which a host that is there already reads again."""
        peers = tuple(peer for peer in content.peers if _may_be_called(peer, place))
        work = ServicesWork(
            replace(content, peers=peers),
            blobs=place.blobs,
            host=place.host,
            port=place.port,
            folder=place.folder,
            agent_url=place.agent_url,
            node=place.node,
            tls=_list_files(place),
            is_encrypted=place.tls.is_serving,
            provider=place.provider,
        )
        work.write(place.folder / WORK)

    def sources(self, order: Order) -> Collection[str]:  # noqa: ARG002  # the protocol's
        return ()

    def routes(self, agent: Agent) -> list[BaseRoute]:
        return driver_routes.of_services(agent)

    def offers(self, agent: Agent) -> Mapping[str, Any]:  # noqa: ARG002  # the protocol's
        return {}


def _may_be_called(host: StageHost, place: Allocation) -> bool:
    """Not a host of another node in clear text, where this node refuses that: stages then run here."""
    try:
        place.tls.refuse_clear_text(host.url, host.node)
    except WorkRefused as refusal:
        logger.warning("%s %s", refusal.message, refusal.hint)
        return False
    return True


def _list_files(place: Allocation) -> tuple[str, ...]:
    credentials = place.tls.credentials
    return tuple(credentials.to_json()) if credentials else ()


def _read(read: Callable[[Mapping[str, Any]], Content], order: Order) -> Content:
    try:
        return read(order.content)
    except (KeyError, TypeError, ValueError, AttributeError, ModelmillError) as error:
        raise WorkRefused(f"The order cannot be read: {type(error).__name__}: {error}.", reason="BadOrder") from None


def _remove(content: Mapping[str, Any], changing: tuple[str, ...]) -> JsonObject:
    return {name: value for name, value in content.items() if name not in changing}


Mark = tuple[int, int, int] | None
logger = logging.getLogger(__name__)


class Videos:
    """What a node's cameras are to video jobs.

    Args:
        probes: of its live sources; None: nothing is known of these.

    Raises:
        BadInput: A path that the agent was started with is not there; what a URL names is not looked up.
    """

    def __init__(self, cameras: Cameras, probes: SourceProbes | None = None) -> None:
        self.cameras, self._probes = cameras, probes
        self._known: dict[str, tuple[Mark, SourceFacts]] = {}
        for camera in cameras.by_id().values():
            if not is_stream(camera.source) and not is_there(Path(camera.source)):
                raise BadInput(
                    f"there is no video {camera.source}", hint="Give --video a path that this machine has, or a URL."
                )

    def describe(self, read: Collection[str] | None = ()) -> dict[str, Mapping[str, str]]:
        """By id: {type, name}, and size, as 270x480, fps, live ("yes"), problem and refused ("yes"), where there are. A
        file is looked at when it has changed; of a live source that is known later.

        Args:
            read: the sources that workers of this node read, which are not probed; None: not known yet.
        """
        cameras = self.cameras.by_id()
        present = {camera.source for camera in cameras.values()}
        self._known = {source: known for source, known in self._known.items() if source in present}
        return {camera_id: self._describe_camera(camera, read) for camera_id, camera in cameras.items()}

    def _describe_camera(self, camera: Camera, read: Collection[str] | None) -> dict[str, str]:
        name = hide_credentials(camera.source) if is_stream(camera.source) else Path(camera.source).name
        facts = self._find_facts(camera, name, read)
        size = f"{facts.width}x{facts.height}" if facts.width else ""
        fps = f"{facts.fps:.5g}" if facts.fps else ""
        live, refused = ("yes" if flag else "" for flag in (facts.is_live, facts.is_refused))
        facts_by_name = {"type": camera.type, "name": name, "size": size, "fps": fps, "live": live}
        facts_by_name |= {"problem": facts.problem, "refused": refused}
        return {key: value for key, value in facts_by_name.items() if value or key in ("type", "name")}

    def _find_facts(self, camera: Camera, name: str, read: Collection[str] | None) -> SourceFacts:
        try:
            source = self.cameras.source_of(camera)
        except SourceNotOffered as error:
            return SourceFacts(f"{error.message} {error.hint}", is_refused=True)
        mark, known = _mark(source), self._known.get(camera.source)
        if known is None or known[0] != mark:
            is_gone = mark is None and not is_stream(source)
            facts = SourceFacts(f"{name} is not there{' any more' if known else ''}") if is_gone else facts_of(source)
            known = self._known[camera.source] = mark, facts
            if known[1].problem:
                logger.warning("Video %s: %s.", camera.id, known[1].problem)
        facts = known[1]
        if self._probes is None or not facts.is_live or facts.problem:
            return facts
        return self._probes.facts(source, is_read=read is None or source in read)


def _mark(source: str) -> Mark:
    """Another one when the file is. Of a stream there is none."""
    try:
        stat = Path(source).stat()
    except (OSError, ValueError):
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino
