"""What a client that watches is told of its services."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from app.bootstrap.container import Container
from app.joint_inference import store
from app.joint_inference.documents import parse_document
from app.joint_inference.kubernetes.requests import Selector, selector_of
from app.joint_inference.kubernetes.watch import Expired, WatchStream
from app.joint_inference.model.resource import Service
from app.joint_inference.service import Services
from tests.harness.paths import SAMPLES

SAMPLE = SAMPLES / "helmet" / "service.yaml"
NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
ME = "local"


@pytest.fixture
def services(container: Container) -> Services:
    container.prepare()
    return container.joint.services


def make(services: Services, name: str, namespace: str = "default", user: str = ME, **labels: str) -> Service:
    resource: dict[str, Any] = parse_document(SAMPLE.read_bytes())
    resource["metadata"] = {"name": name, "namespace": namespace, "labels": labels}
    return services.create(user, resource, now=NOW)


def label(services: Services, name: str, **labels: str | None) -> None:
    services.merge(ME, "default", name, {"metadata": {"labels": labels}}, now=NOW)


def end(services: Services, service: Service) -> None:
    """As the controller does once its workers have ended."""
    with services.database.write() as conn:
        now = store.by_uid(conn, service.uid)
        assert now is not None
        store.change_service(conn, now, gone_at="2026-11-21T12:00:01.000Z")


def watch(services: Services, namespace: str | None = None, selector: Selector | None = None) -> WatchStream:
    return WatchStream(services, ME, namespace, selector or Selector())


def told(changes: list[tuple[str, Service]]) -> list[str]:
    return [f"{kind} {service.name}" for kind, service in changes]


def test_who_names_no_version_is_told_of_all_first(services: Services) -> None:
    make(services, "one")
    make(services, "two")
    view = watch(services)
    assert told(view.begin(0)) == ["ADDED one", "ADDED two"]
    assert view.news() == []


def test_each_change_is_told_once_and_in_order(services: Services) -> None:
    first = make(services, "one")
    view = watch(services)
    assert view.begin(services.all(ME)[1]) == []
    make(services, "two")
    label(services, "one", app="web")
    end(services, first)
    make(services, "one")
    assert told(view.news()) == ["ADDED two", "DELETED one", "ADDED one"]
    label(services, "two", app="web")
    assert told(view.news()) == ["MODIFIED two"]
    assert view.news() == []


def test_what_changed_between_the_list_and_the_watch_is_not_missed(services: Services) -> None:
    first = make(services, "one")
    _, version = services.all(ME)
    end(services, first)
    make(services, "two")
    assert told(watch(services).begin(version)) == ["DELETED one", "ADDED two"]


def test_another_users_services_are_not_told_of(services: Services) -> None:
    view = watch(services)
    view.begin(0)
    end(services, make(services, "theirs", user="mallory"))
    make(services, "theirs-too", user="mallory")
    assert view.news() == []


def test_other_namespaces_are_not_told_of(services: Services) -> None:
    view = watch(services, "shop")
    view.begin(0)
    make(services, "one")
    make(services, "two", "shop")
    assert told(view.news()) == ["ADDED two"]


def test_what_is_selected_no_longer_is_told_as_deleted(services: Services) -> None:
    make(services, "one", app="web")
    make(services, "two", app="db")
    view = watch(services, selector=selector_of({"labelSelector": "app=web"}))
    assert told(view.begin(0)) == ["ADDED one"]
    label(services, "one", app=None)
    label(services, "two", app="web")
    assert told(view.news()) == ["DELETED one", "ADDED two"]
    label(services, "one", app="db")
    assert view.news() == []


def test_a_version_that_was_never_given_out_is_refused(services: Services) -> None:
    """The database is another one, or an older copy: the client has to read the list anew."""
    with pytest.raises(Expired):
        watch(services).begin(services.all(ME)[1] + 1)
