"""Hard samples that edge workers send, with small pictures of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from app.joint_inference import store
from app.joint_inference.errors import SampleNotFound, ServiceNotFound
from app.joint_inference.model.resource import Service
from app.joint_inference.model.tally import Sample
from app.joint_inference.service.collection import HardSampleCollection
from app.joint_inference.service.producers import KIND, origin_of
from app.joint_inference.service.service_nodes import check_runs_on
from app.joint_inference.service.services import Services
from app.kit.clock import to_text
from app.kit.objects import ObjectMissing, ObjectStore
from app.kit.objects.content import read_content
from app.kit.sql import Database
from app.nodes.service import Nodes
from app.results.service import Rules

KEPT_SAMPLES = 20
JPEG = "image/jpeg"
RECENT_EVENTS = 50


@dataclass(eq=False)
class HardSamples:
    """The newest hard samples of all services.

    Args:
        objects: where their pictures lie.
        rules: keeps pictures of events.
        collection: keeps samples in data homes; None: none are kept there.
    """

    services: Services
    nodes: Nodes
    objects: ObjectStore
    rules: Rules
    collection: HardSampleCollection | None = None

    def __post_init__(self) -> None:
        self.database: Database = self.services.database

    def add(self, node: str, uid: str, sample: Sample, picture: bytes, content_type: str, *, now: datetime) -> None:
        """Store a sample that a node's worker sends. The newest KEPT_SAMPLES are kept.

        Args:
            uid: of the service.
            picture: encoded as `content_type` says.

        Raises:
            ServiceNotFound: This node does not run it.
        """
        with self.database.read() as conn:
            check_runs_on(self.nodes, conn, uid, node)
        sample = replace(sample, extra={**sample.extra, "node": node})
        self.objects.put(_picture(uid, sample.id), [picture], content_type=content_type)
        try:
            with self.database.write() as conn:
                check_runs_on(self.nodes, conn, uid, node)
                gone = store.put_sample(conn, uid, sample, content_type, at=to_text(now), keep=KEPT_SAMPLES)
        except ServiceNotFound:  # it was deleted meanwhile, with its other pictures
            self.objects.delete(_picture(uid, sample.id))
            raise
        for sample_id in gone:
            self.objects.delete(_picture(uid, sample_id))
        with self.database.read() as conn:
            service = store.by_uid(conn, uid)
        if service is not None:
            if content_type == JPEG:
                origin = origin_of(service, node), str(sample.extra.get("source", ""))
                self.rules.keep_picture(KIND, uid, picture, now, node=origin[0], source=origin[1])
            self._collect(service, sample, picture, content_type, to_text(now))
        self.services.announce()

    def of(self, user: str, namespace: str, name: str) -> list[Sample]:
        """Newest first."""
        service = self.services.get(user, namespace, name)
        with self.database.read() as conn:
            return store.samples_of(conn, service.uid)

    def picture(self, user: str, namespace: str, name: str, sample_id: str) -> tuple[bytes, str]:
        """The preview of a sample.

        Args:
            name: of the service.
            sample_id: as its report has it.

        Returns:
            The picture's bytes and content type.

        Raises:
            SampleNotFound: It has gone, for only the newest are kept.
        """
        service = self.services.get(user, namespace, name)
        with self.database.read() as conn:
            content_type = store.content_type_of(conn, service.uid, sample_id)
        if content_type is not None:
            try:
                return read_content(self.objects, _picture(service.uid, sample_id)), content_type
            except ObjectMissing:
                pass
        raise SampleNotFound(f"There is no sample {sample_id!r} (any more): only the newest are kept.")

    def newest_picture(self, service: Service, *, node: str = "", source: str = "") -> tuple[bytes, str] | None:
        """The newest of the kept hard samples: the picture's bytes and content type; None while there is none.

        Args:
            node: that sent it; empty: any.
            source: that it comes from; empty: any.
        """
        with self.database.read() as conn:
            samples = store.samples_of(conn, service.uid)
            origin = {"node": node, "source": source}.items()
            fitting = (one for one in samples if all(name in ("", one.extra.get(key)) for key, name in origin))
            sample = next(fitting, None)
            content_type = store.content_type_of(conn, service.uid, sample.id) if sample else None
        if sample is None or content_type is None:
            return None
        try:
            return read_content(self.objects, _picture(service.uid, sample.id)), content_type
        except ObjectMissing:
            return None

    def forget(self, uid: str) -> None:
        """Delete the pictures of a service."""
        self.objects.delete_prefix(f"joint/{uid}/")

    def _collect(self, service: Service, sample: Sample, picture: bytes, content_type: str, at: str) -> None:
        """Into the data home. Why that cannot be done is an event of the service, once."""
        if self.collection is None:
            return
        uid = service.uid
        problem = self.collection.add(service, sample, picture, content_type)
        if not problem:
            return
        message = f"Hard samples are not kept in the data home: {problem}."
        with self.database.write() as conn:
            if message not in {event.message for event in store.events_of(conn, uid, RECENT_EVENTS)}:
                store.add_event(conn, uid, at, type="Warning", reason="NotCollected", message=message)


def _picture(uid: str, sample_id: str) -> str:
    return f"joint/{uid}/samples/{sample_id}"
