"""Zones are drawn on the picture of a video job with the mouse, and typed where there is no script."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from app.bootstrap.container import Container, assemble
from app.kit.clock import now
from app.results.model.rule import Point
from app.video.model.job import VideoJob
from app.video.service.producers import producer_of_job
from tests.harness.deployment import Deployment
from tests.harness.video.records import running_video

USER = "local"


@pytest.fixture
def container(service: Deployment) -> Iterator[Container]:
    made = assemble(service.settings())
    yield made
    made.close()


@pytest.fixture
def job(container: Container) -> VideoJob:
    return running_video(container.video, USER, now=now())


def test_clicks_are_points_which_can_be_dragged_and_taken_back(page: Page, container: Container, job: VideoJob) -> None:
    page.goto(f"/ui/video/{job.uid}/rules")
    picture = page.locator(".zone-picture.is-live svg")

    def at(x: float, y: float) -> tuple[float, float]:
        picture.scroll_into_view_if_needed()
        box = picture.bounding_box()
        assert box is not None
        return box["x"] + x * box["width"], box["y"] + y * box["height"]

    for x, y in ((0.2, 0.2), (0.6, 0.2), (0.6, 0.8), (0.9, 0.9)):
        page.mouse.click(*at(x, y))
    page.get_by_role("button", name="Take back the last point").click()
    page.mouse.move(*at(0.2, 0.2))
    page.mouse.down()
    page.mouse.move(*at(0.3, 0.4))
    page.mouse.up()
    page.get_by_label("Name of the zone").fill("yard")
    page.get_by_role("button", name="Save the zone").click()
    expect(page.locator(".zone text")).to_have_text("yard")
    (zone,) = container.results.rules.get(producer_of_job(job)).rule_set.zones
    expected: list[Point] = [(0.3, 0.4), (0.6, 0.2), (0.6, 0.8)]
    for point, place in zip(zone.points, expected, strict=True):
        assert point == pytest.approx(place, abs=0.01)
