"""The page of a job on which it leaves."""

from __future__ import annotations

from app.bootstrap.container import Container
from app.exchange.pack.device_results import DeviceResult
from app.settings import Settings
from tests.harness.exchange import reported_job
from tests.harness.users import OURS, within

HTML = {"Accept": "text/html", "Sec-Fetch-Site": "same-origin"}


def test_the_page_offers_pack_and_push_and_shows_what_devices_said(settings: Settings, container: Container) -> None:
    record = reported_job(container, "local")
    manifest = container.packs._manifest(record, "http://here")
    result = DeviceResult(False, 4.25, "board <1>", "tests/1 output 'y': differs", "2026-11-20T00:00:00Z")
    container.packs.device_results.add(record.job_id, manifest["report"]["token"], result)
    with within(settings) as web:
        page = web.get(f"/ui/jobs/{record.job_id}/exports", headers=HTML)
        assert page.status_code == 200
        assert f'href="/jobs/{record.job_id}/pack"' in page.text
        assert "board &lt;1&gt;" in page.text and "4.25 ms" in page.text and "differs" in page.text
        headers = {**HTML, **OURS, "Accept-Language": "zh-Hant"}
        refused = web.post(f"/ui/jobs/{record.job_id}/exports", data={"target": "ftp://x"}, headers=headers)
        assert refused.status_code == 422 and "結果不能推送到這裡" in refused.text


def test_a_job_that_a_restart_has_forgotten_is_packed_and_pushed_from_the_archive(
    settings: Settings, container: Container
) -> None:
    record = reported_job(container, "local")
    container.archive.descriptions.write(record)
    place = f"/ui/jobs/{record.job_id}/exports"
    with within(settings) as web:
        assert f'href="/ui/jobs/{record.job_id}"' in web.get(place, headers=HTML).text
        container.store.delete(record.job_id)
        assert f'href="{place}"' in web.get(f"/ui/archive/{record.job_id}", headers=HTML).text
        page = web.get(place, headers=HTML)
        assert page.status_code == 200
        assert f'href="/jobs/{record.job_id}/pack"' in page.text
        assert f'href="/ui/archive/{record.job_id}"' in page.text


def test_the_page_of_a_job_and_that_of_the_archive_say_where_the_model_was_fetched_from(
    settings: Settings, container: Container
) -> None:
    record = reported_job(container, "local", origin="hf://org/<b>")
    container.archive.descriptions.write(record)
    with within(settings) as web:
        for page in (f"/ui/jobs/{record.job_id}", f"/ui/archive/{record.job_id}"):
            text = web.get(page, headers=HTML).text
            assert "Fetched from" in text and "<code>hf://org/&lt;b&gt;</code>" in text, page


def test_a_push_is_followed_and_what_is_refused_keeps_what_was_typed(settings: Settings, container: Container) -> None:
    record = reported_job(container, "local")
    place = f"/ui/jobs/{record.job_id}/exports"
    with within(settings) as web:
        refused = web.post(place, data={"target": "ftp://x", "registered_model": "m"}, headers=HTML)
        assert refused.status_code == 422
        assert "not a place that results can be pushed to" in refused.text and 'value="ftp://x"' in refused.text
        taken = web.post(place, data={"target": "hf://org/model"}, headers=HTML, follow_redirects=False)
        assert taken.status_code == 303
        followed = web.get(taken.headers["location"], headers=HTML).text
        assert "on their way to hf://org/model" in followed and 'http-equiv="refresh"' in followed


def test_a_job_without_a_good_end_has_nothing_to_take_away(settings: Settings, container: Container) -> None:
    record = reported_job(container, "local", is_good=False)
    with within(settings) as web:
        text = web.get(f"/ui/jobs/{record.job_id}/exports", headers=HTML).text
        assert "nothing" in text or "Only a completed job has results" in text
        assert "/pack" not in text
        assert web.get("/ui/jobs/00000000-0000-4000-8000-000000000000/exports", headers=HTML).status_code == 404
