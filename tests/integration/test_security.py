"""What every answer carries, by which names the web is reached, and that no secret is where it was not put."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis
from starlette.routing import Mount, Route, WebSocketRoute

from app.kit.objects.filesystem import FilesystemStore
from app.kit.objects.signed_urls import sign_url
from app.main import create_app
from app.settings import Settings
from tests.harness.api import Api, png, pngs, small_model
from tests.harness.deployment import Deployment
from tests.harness.folder_contents import contents_of, paths_below
from tests.harness.until import until
from tests.harness.variants import exhaustive

SECRET_KEY = "bench"
"""As the deployment sets it."""
ALWAYS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
SCRIPT = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(document.domain)</script></svg>'


@pytest.fixture(scope="module")
def job(service: Deployment) -> dict[str, Any]:
    with Api(service.url) as api:
        return api.convert(small_model(), pngs(3))


def assert_guarded(answer: httpx.Response) -> None:
    assert {name: answer.headers.get(name) for name in ALWAYS} == ALWAYS, answer.url
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'") and "frame-ancestors" in policy, answer.url
    assert "unsafe-eval" not in policy and "script-src 'unsafe-inline'" not in policy, answer.url


TRAINING = ("/api/v2/tasks", "/ui/tasks")
"""What the service of these tests does not do, and says so with 503."""


# --- headers ------------------------------------------------------------------------------------------
METHODS = ("OPTIONS", "PATCH", "PUT", "POST", "HEAD", "GET")


def requests(settings: Settings, job_id: str) -> list[tuple[str, str]]:
    """Every route of the application, with something real in its place-holders where there is, and each method that it
    takes, and one that it does not."""
    given = {"job_id": job_id, "step": "onnx", "name": "out.nef", "artifact": "out.nef", "index": "0", "key": "no/key"}
    app = create_app(settings)
    taken: dict[str, set[str]] = {}
    for route in app.routes:
        if isinstance(route, WebSocketRoute):
            continue  # answered by test_nodes_link
        assert isinstance(route, Route | Mount), "a route of a new kind"
        path = re.sub(r"\{(\w+)(?::\w+)?\}", lambda page: given.get(page[1], "none"), route.path)
        taken.setdefault(path, set()).update((route.methods or METHODS) if isinstance(route, Route) else {"GET"})
    app.state.container.close()
    others = {(path, next(method for method in METHODS if method not in methods)) for path, methods in taken.items()}
    return sorted(others | {(path, method) for path in taken for method in METHODS if method in taken[path]})


def test_every_route_answers_every_method_with_the_guarding_headers(
    service: Deployment, job: dict[str, Any], settings: Settings
) -> None:
    with httpx.Client(base_url=service.url, timeout=60, trust_env=False) as client:
        tried = requests(settings, job["job_id"])
        assert len(tried) > 800
        for path, method in tried:
            with client.stream(method, path) as answer:  # the event stream, too: only its head is wanted
                is_off = answer.status_code == 503 and path.startswith(TRAINING)
                assert answer.status_code < 500 or is_off, (method, path)
                assert_guarded(answer)


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/nothing", {}, 404),
        ("/ui/nothing", {"Accept": "text/html"}, 404),
        ("/jobs?limit=x", {}, 422),
        ("/static/nothing.js", {}, 404),
        ("/jobs", {"Host": "evil.example"}, 421),
    ],
)
def test_errors_carry_them_too(service: Deployment, path: str, headers: dict[str, str], status: int) -> None:
    answer = httpx.get(f"{service.url}{path}", headers=headers, trust_env=False)
    assert answer.status_code == status
    assert_guarded(answer)


def test_a_fault_of_ours_carries_them_too(settings: Settings) -> None:
    app = create_app(settings)
    vars(app.state.container)["conversion"] = None  # whatever needs it stumbles

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.get("/jobs")

    answer = asyncio.run(ask())
    app.state.container.close()
    assert answer.status_code == 500
    assert_guarded(answer)
    assert "Traceback" not in answer.text and "NoneType" not in answer.text


# --- what a user brought ------------------------------------------------------------------------------
def test_a_file_that_a_user_brought_can_run_no_script_on_our_origin(service: Deployment) -> None:
    for name in ("x.svg", "x.html"):
        with Api(service.url) as api:
            link = api.http.post("/uploads/presign", json={}).json()["images"]
            assert api.http.put(link["url"], content=SCRIPT, headers={"Content-Type": "text/html"}).is_success
            url = sign_url(service.url, SECRET_KEY, "GET", link["key"], int(time.time()) + 60, download_name=name)
            answer = api.http.get(url)
        assert answer.content == SCRIPT
        assert_inert(answer)


def test_what_came_of_a_job_is_downloaded_and_never_shown(service: Deployment, job: dict[str, Any]) -> None:
    with Api(service.url) as api:
        for name in job["artifacts"]:
            assert_inert(api.http.get(f"/jobs/{job['job_id']}/artifacts/{name}"))
        assert_inert(api.http.get(f"/ui/jobs/{job['job_id']}/all.zip"))
        assert_inert(api.http.get(f"/ui/jobs/{job['job_id']}/quality.csv"))


def assert_inert(answer: httpx.Response) -> None:
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-disposition"].startswith("attachment")
    policy = [part.strip() for part in answer.headers["content-security-policy"].split(";")]
    assert "sandbox" in policy and not any(part.startswith("script-src") for part in policy)
    assert not answer.headers["content-type"].startswith(("text/html", "image/svg"))
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "name",
    [
        *["../../../../tmp/evil.png", "x" * 3000, "%00.png"],
        *exhaustive("/etc/evil.png", "C:\\evil.png", "a\u202eb.png", "é模.png", ".."),
    ],
)
def test_a_hostile_name_makes_no_file_of_its_own(service: Deployment, name: str) -> None:
    with Api(service.url) as api:
        answer = api.submit(small_model(), [(name, png(1)), ("b.png", png(2))])
        assert answer.status_code == 201, answer.text
    kept = [Path(folder) for folder, _, names in os.walk(service.folder) if any("evil" in name for name in names)]
    made = [folder for folder in kept if folder.name not in ("ref_images", "unpacked")]
    assert not made and not Path("/tmp/evil.png").exists() and not Path("/etc/evil.png").exists()


# --- names and redirects ------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("host", "is_known"),
    [
        ("127.0.0.1", True),
        ("localhost:1234", True),
        ("[::1]:80", True),
        ("mill", True),
        ("192.168.1.5:8080", True),
        ("evil.example", False),
        ("evil.example:8080", False),
        ("127.0.0.1.evil.example", False),
        ("LOCALHOST.EVIL.EXAMPLE.", False),
    ],
)
def test_on_loopback_only_names_that_nobody_can_point_at_us_are_taken(
    service: Deployment, host: str, is_known: bool
) -> None:
    answer = httpx.get(f"{service.url}/ui/jobs", headers={"Host": host}, trust_env=False)
    assert answer.status_code == (200 if is_known else 421)


def test_a_redirect_stays_here(service: Deployment) -> None:
    for target in (
        "//evil.example",
        "/\\evil.example",
        "https://evil.example",
        "javascript:alert(1)",
        "/\t/evil.example",
    ):
        answer = httpx.post(
            f"{service.url}/ui/lang",
            data={"lang": "en", "next": target},
            headers={"Sec-Fetch-Site": "same-origin"},
            trust_env=False,
        )
        assert answer.status_code == 303
        assert httpx.URL(service.url).join(answer.headers["location"]).host == "127.0.0.1", target
    away = httpx.get(f"{service.url}/jobs/", headers={"Host": "evil.example"}, trust_env=False)
    assert "location" not in away.headers


def test_a_head_of_megabytes_is_survived(service: Deployment) -> None:
    with contextlib.suppress(httpx.TransportError):  # cut off: as good
        httpx.get(f"{service.url}/healthz", headers={"X-Long": "x" * (8 << 20)}, trust_env=False)
    assert httpx.get(f"{service.url}/healthz", trust_env=False).status_code == 200


# --- links --------------------------------------------------------------------------------------------
def test_a_link_to_our_own_store_expires_and_is_for_one_method_and_key(service: Deployment) -> None:
    store = FilesystemStore(service.settings().objects, public_url=service.url, secret=SECRET_KEY)
    for name in ("a", "b"):
        store.put(f"links/{name}", [b"x"])
    with httpx.Client(trust_env=False) as client:
        url = store.presign_get("links/a", expires_s=600)
        assert client.get(url).status_code == 200
        assert client.put(url, content=b"y").status_code == 403
        assert client.get(url.replace("links/a", "links/b")).status_code == 403
        assert client.get(url.replace("expires=", "expires=9")).status_code == 403
        short = store.presign_get("links/a", expires_s=1)
        expired = until(lambda: client.get(short), lambda answer: answer.status_code != 200)
        assert (expired.status_code, expired.json()["error"]["code"]) == (403, "URL_EXPIRED")
        put = store.presign_put("links/c", expires_s=1)
        until(lambda: time.time() > int(httpx.URL(put).params["expires"]))
        assert client.put(put, content=b"y").status_code == 403
    store.delete_prefix("links/")


# --- secrets ------------------------------------------------------------------------------------------
SECRETS = {"secret_key": "signing-7f3a9c", "s3_secret_key": "s3secret-7f3a9c", "s3_access_key": "s3access-7f3a9c"}
PASSWORD = "redispass-7f3a9c"
MARK = "7f3a9c"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """A service whose every secret has a mark in it, as has the password of its Redis."""
    with Deployment(tmp_path_factory.mktemp("guarded"), **SECRETS) as deployment:
        deployment.redis.config_set("requirepass", PASSWORD)
        deployment.env["MODELMILL_REDIS_URL"] = f"redis://:{PASSWORD}@127.0.0.1:{deployment.redis_port}/0"
        deployment.redis = deployment.valkey.client = redis.Redis(port=deployment.redis_port, password=PASSWORD)
        deployment.whole()
        yield deployment
        deployment.redis.config_set("requirepass", "")


@pytest.mark.slow
def test_no_secret_is_in_logs_records_answers_or_command_lines(guarded: Deployment) -> None:
    with Api(guarded.url) as api:
        job = api.convert(small_model(), pngs(3))
        assert job["status"] == "COMPLETED", job["error"]
        api.submit(b"no model", pngs(2))
        own = f"/jobs/{job['job_id']}"
        paths = (
            "/system",
            "/ui/system",
            "/openapi.json",
            "/jobs",
            own,
            f"/ui{own}",
            f"{own}/logs/bie",
            "/readyz",
            "/nothing",
            "/objects/a?expires=1&signature=0",
        )
        shown = {path: api.http.get(path).text for path in paths}
        guarded.redis.config_set("requirepass", "other")  # now every connection made anew fails
        guarded.redis.client_kill_filter(_type="normal", skipme=True)
        shown |= {
            f"{path} without Redis": api.http.get(path).text for path in ("/system", "/jobs", "/readyz", "/ui/jobs")
        }
        guarded.redis.config_set("requirepass", PASSWORD)
    held = {str(key): value for number in (0, 1) for key, value in _dump(guarded, number)}
    files = contents_of(paths_below(guarded.folder))
    commands = contents_of(Path(f"/proc/{pid}/cmdline") for pid in _all_of(guarded))
    assert held and len(files) > 10 and len(commands) > 8
    for place in (shown, held, files, commands):
        assert not [where for where, text in place.items() if MARK in (text if isinstance(text, str) else str(text))]


def _dump(deployment: Deployment, number: int) -> Iterator[tuple[bytes, bytes]]:
    with redis.Redis(port=deployment.redis_port, password=PASSWORD, db=number) as client:
        for key in client.scan_iter("*"):
            reads = {
                b"hash": client.hgetall,
                b"string": client.get,
                b"list": lambda k: client.lrange(k, 0, -1),
                b"set": client.smembers,
                b"zset": lambda k: client.zrange(k, 0, -1),
            }
            yield key, str(reads.get(client.type(key), client.xrange)(key)).encode()


def _all_of(deployment: Deployment) -> list[int]:
    from app.kit.sandbox import process_tree

    return [pid for process in deployment.processes for pid in (process.pid, *process_tree.list_all(process.pid))]


@pytest.mark.slow
def test_other_users_of_the_machine_can_read_nothing_of_it(guarded: Deployment) -> None:
    data = guarded.folder / "data"
    paths = list(paths_below(data))
    assert len(paths) > 10
    assert not [path for path in paths if _is_open_to_others(data, path)]


def _is_open_to_others(data: Path, path: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):  # it was there when it was listed
        return bool(path.stat().st_mode & 0o077) and all(above.stat().st_mode & 0o077 for above in _between(data, path))
    return False


def _between(data: Path, path: Path) -> list[Path]:
    """The folders above the path, up to and with the data folder."""
    return [above for above in path.parents if above == data or data in above.parents]
