"""Watches over drift: set, measured, and told of."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from sqlalchemy import Connection

from app.joint_inference import store
from app.joint_inference.calibration.predictions import SamplePredictions
from app.joint_inference.calibration.service import Calibrations
from app.joint_inference.errors import NoReference
from app.joint_inference.model.drift import (
    LEAST_OBJECTS,
    Drift,
    DriftReference,
    ReferenceKind,
    ScoreDistribution,
    distribution_of,
    measure,
)
from app.joint_inference.model.resource import Service
from app.joint_inference.service import Services
from app.joint_inference.worker_options import algorithm_of
from app.kit.clock import to_text
from app.kit.sql import Event, publish
from app.kit.text.json_values import JsonObject
from app.results import store as results
from app.results.model.frame_result import ResultFilter

MOST_ROWS = 2000
"""Pictures of the present, and of a window of the past."""
EVENT = "service.drift"


class DriftMonitor:
    """The watches over all services. Another user's service does not exist for an operation."""

    def __init__(self, services: Services, calibrations: Calibrations) -> None:
        self._services = services
        self._calibrations = calibrations
        self._database = services.database

    def get(self, user: str, namespace: str, name: str) -> Drift | None:
        """Returns None if it is not watched."""
        uid = self._services.get(user, namespace, name).uid
        with self._database.read() as conn:
            return store.drift_of(conn, uid)

    def watch_calibration(
        self, user: str, namespace: str, name: str, calibration_id: str, threshold: float, *, now: datetime
    ) -> Drift:
        """Compare with the samples of a calibration, answered as the service's present algorithm would have had them.

        Args:
            name: of the service.
            calibration_id: of a calibration that has ended.
            threshold: of the population stability index.
            now: the time.

        Raises:
            ServiceNotFound, CalibrationNotFound, NotReady: One of them is not there, or not yet.
            NoReference: Too few objects are in it.
        """
        service = self._services.get(user, namespace, name)
        answers = self._calibrations.answers(user, calibration_id)
        distribution = _count_answers(service, answers, self._calibrations.class_names(service, now=now))
        return self._watch(
            service, ReferenceKind.CALIBRATION, distribution, threshold, now, calibration_id=calibration_id
        )

    def watch_window(
        self, user: str, namespace: str, name: str, since: datetime, until: datetime, threshold: float, *, now: datetime
    ) -> Drift:
        """Compare with the rows of a time that has passed; at most MOST_ROWS of them.

        Args:
            name: of the service.
            since: the time's beginning; included.
            until: its end; excluded, and at the latest now.
            threshold: of the population stability index.
            now: the time.

        Raises:
            ServiceNotFound: It is not this user's.
            NoReference: Too few objects are in it.
        """
        service = self._services.get(user, namespace, name)
        begin, end = to_text(since), to_text(min(until, now))
        with self._database.read() as conn:
            distribution = _count_rows(conn, service.uid, ResultFilter(begin, end), newest_first=False)
        return self._watch(service, ReferenceKind.WINDOW, distribution, threshold, now, since=begin, until=end)

    def stop(self, user: str, namespace: str, name: str) -> None:
        uid = self._services.get(user, namespace, name).uid
        with self._database.write() as conn:
            store.forget_drift(conn, uid)
        self._services.wake(uid)

    def measure_all(self, now: datetime) -> None:
        """Measure every watched service. Its user hears when drift begins."""
        with self._database.read() as conn:
            watched = store.drifts_of(conn)
        for uid, drift in watched.items():
            self._measure(uid, drift, now)

    def _watch(
        self,
        service: Service,
        kind: ReferenceKind,
        distribution: ScoreDistribution,
        threshold: float,
        now: datetime,
        **place: str,
    ) -> Drift:
        if distribution.objects < LEAST_OBJECTS:
            raise NoReference(
                f"The reference has {distribution.objects} objects, of which at least {LEAST_OBJECTS} are needed.",
                hint="Choose a longer time, or a calibration with more samples.",
            )
        drift = Drift(DriftReference(kind, distribution, **place), threshold)
        with self._database.write() as conn:
            store.put_drift(conn, service.uid, drift)
        return self._measure(service.uid, drift, now)

    def _measure(self, uid: str, drift: Drift, now: datetime) -> Drift:
        with self._database.write() as conn:
            service = store.by_uid(conn, uid)
            if service is None or service.gone_at is not None:
                store.forget_drift(conn, uid)
                return drift
            if store.drift_of(conn, uid) != drift:  # another was set meanwhile
                return drift
            chosen = ResultFilter(since=drift.reference.until or None)
            measured = measure(drift, _count_rows(conn, uid, chosen, newest_first=True), to_text(now))
            after = replace(drift, measured=measured)
            store.put_drift(conn, uid, after)
            if after.is_above and not drift.is_above:  # its event is that of the service's new condition
                _publish(conn, service, after, to_text(now))
        if after.is_above != drift.is_above:
            self._services.wake(uid)
        self._services.announce()
        return after


def _count_answers(service: Service, answers: list[SamplePredictions], names: tuple[str, ...]) -> ScoreDistribution:
    algorithm = algorithm_of(service.specification)
    pictures = []
    for answer in answers:
        final = answer.cloud if algorithm(answer.edge).is_hard else answer.edge
        objects = [(box.label, box.score) for box in final.boxes]
        if final.label is not None:
            objects = [(final.label, final.probabilities[final.label])]
        pictures.append([(names[n] if n < len(names) else str(n), score) for n, score in objects])
    return distribution_of(pictures)


def _count_rows(conn: Connection, uid: str, chosen: ResultFilter, *, newest_first: bool) -> ScoreDistribution:
    records = results.rows_of(conn, uid, chosen, newest_first=newest_first, limit=MOST_ROWS)
    return distribution_of([[(one.label, one.score) for one in record.objects] for record in records])


def _publish(conn: Connection, service: Service, drift: Drift, at: str) -> None:
    subject, name = f"service:{service.uid}", f"{service.namespace}/{service.name}"
    measured = drift.measured
    assert measured is not None
    facts: JsonObject = {"namespace": service.namespace, "service": service.name, "reason": drift.message}
    facts |= {"scores": measured.scores, "classes": measured.classes, "threshold": drift.threshold}
    path = f"/ui/services/{name}/drift"
    publish(conn, Event(f"{subject}:{EVENT}:{at}", EVENT, service.owner, subject, name, at, path, facts))
