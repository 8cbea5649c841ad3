"""Which bytes a Range header asks for, and what a download answers to it."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Annotated, Any

import httpx
import pytest
from pydantic import AfterValidator, BaseModel, Field
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.kit.errors import BadInput
from app.kit.web.downloads import RangeNotSatisfiable, byte_range, stream_bytes
from app.kit.web.http import EXCEPTION_HANDLERS, checked, query

CONTENT = bytes(range(100))


@pytest.mark.parametrize(
    ("header", "span"),
    [
        ("bytes=0-0", (0, 1)),
        ("bytes=0-99", (0, 100)),
        ("bytes=10-19", (10, 20)),
        ("bytes=99-99", (99, 100)),
        ("bytes=50-", (50, 100)),
        ("bytes=0-1000", (0, 100)),
        ("bytes=-1", (99, 100)),
        ("bytes=-100", (0, 100)),
        ("bytes=-1000", (0, 100)),
        ("  bytes=1-2 ", (1, 3)),
        (f"bytes=0-{10**17}", (0, 100)),
    ],
)
def test_a_range_is_half_open_and_ends_with_the_object(header: str, span: tuple[int, int]) -> None:
    assert byte_range(header, 100) == span


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "bytes",
        "bytes=",
        "bytes=-",
        "bytes=5-2",
        "bytes=0-1,3-4",
        "bytes=a-b",
        "bytes=0x1-2",
        "bytes=1.5-2",
        "items=0-1",
        "bytes=--1",
        "bytes=1-2-3",
        "Bytes 0-1",
        "bytes=\u0661-\u0662",
        f"bytes=0-{'9' * 5000}",
        f"bytes={'9' * 5000}-",
    ],
)
def test_what_is_no_range_that_is_served_means_the_whole(header: str | None) -> None:
    assert byte_range(header, 100) is None


@pytest.mark.parametrize(
    ("header", "size"),
    [("bytes=100-", 100), ("bytes=100-200", 100), ("bytes=-0", 100), ("bytes=0-", 0), ("bytes=-5", 0)],
)
def test_a_range_outside_the_object_is_refused_with_its_size(header: str, size: int) -> None:
    with pytest.raises(RangeNotSatisfiable, match=f"{size} bytes") as caught:
        byte_range(header, size)
    assert caught.value.detail == {"size_bytes": size}


def get(headers: dict[str, str] | None = None, name: str = "out.nef") -> httpx.Response:
    def download(request: Request) -> Response:
        return stream_bytes(
            request,
            lambda start, end: iter([CONTENT[start:end]]),
            size=len(CONTENT),
            etag="abc",
            name=name,
            media_type="application/octet-stream",
        )

    app = Starlette(routes=[Route("/", download)], exception_handlers=EXCEPTION_HANDLERS)

    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here") as client:
            return await client.get("/", headers=headers)

    return asyncio.run(ask())


@pytest.mark.parametrize(
    ("headers", "status", "content"),
    [
        ({}, 200, CONTENT),
        ({"Range": "bytes=1-2"}, 206, CONTENT[1:3]),
        ({"Range": "bytes=1-2", "If-Range": '"abc"'}, 206, CONTENT[1:3]),
        ({"Range": "bytes=1-2", "If-Range": '"old"'}, 200, CONTENT),
        ({"Range": "bytes=1-2", "If-Range": "Wed, 21 Oct 2026 07:28:00 GMT"}, 200, CONTENT),
        ({"If-None-Match": '"abc"'}, 304, b""),
        ({"If-None-Match": 'W/"abc", "x"'}, 304, b""),
        ({"If-None-Match": '"abcd"'}, 200, CONTENT),
        ({"If-None-Match": '"abc"', "Range": "bytes=1-2"}, 304, b""),
        ({"If-Match": '"abc"'}, 200, CONTENT),
        ({"If-Match": '"x", "abc"', "Range": "bytes=1-2"}, 206, CONTENT[1:3]),
        ({"If-Match": "*", "If-None-Match": '"abc"'}, 304, b""),
    ],
)
def test_a_download_obeys_its_conditions(headers: dict[str, str], status: int, content: bytes) -> None:
    answer = get(headers)
    assert (answer.status_code, answer.content) == (status, content)
    assert answer.headers["etag"] == '"abc"'


@pytest.mark.parametrize("tags", ['"old"', 'W/"abc"', "abc", "", '"abc'])
def test_a_download_of_another_version_than_the_clients_is_refused_before_all_else(tags: str) -> None:
    answer = get({"If-Match": tags, "If-None-Match": '"abc"', "Range": "bytes=100-"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (412, "PRECONDITION_FAILED")
    assert answer.json()["error"]["detail"] == {"etag": "abc"}


def test_a_range_outside_is_answered_with_the_size_in_the_header() -> None:
    answer = get({"Range": "bytes=100-"})
    assert (answer.status_code, answer.headers["content-range"]) == (416, "bytes */100")


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ("out.nef", 'attachment; filename="out.nef"'),
        ("模型.onnx", "attachment; filename=\"__.onnx\"; filename*=UTF-8''%E6%A8%A1%E5%9E%8B.onnx"),
        ('a".html', "attachment; filename=\"a_.html\"; filename*=UTF-8''a%22.html"),
        ("a\r\nSet-Cookie: b", "attachment; filename=\"a__Set-Cookie: b\"; filename*=UTF-8''a%0D%0ASet-Cookie%3A%20b"),
    ],
)
def test_a_name_of_any_characters_is_a_safe_header(name: str, header: str) -> None:
    assert get(name=name).headers["content-disposition"] == header


def test_a_number_in_a_path_is_as_long_as_a_columns() -> None:
    route = Route("/answers/{place:int}", lambda _: Response("1"))
    client = httpx.AsyncClient(transport=httpx.ASGITransport(Starlette(routes=[route])), base_url="http://web")
    short, long = (asyncio.run(client.get(f"/answers/{digits}")).status_code for digits in ("1" * 9, "1" * 5000))
    assert (short, long) == (200, 404)


class _Query(BaseModel):
    q: str = ""


@pytest.mark.parametrize(
    ("text", "problem"),
    [("q=a%00", "q: a NUL character is not allowed"), ("q=1&q=2", "q: given more than once"), ("q=%E9", None)],
)
def test_a_query_that_no_database_can_compare_is_refused(text: str, problem: str | None) -> None:
    request = Request({"type": "http", "query_string": text.encode(), "headers": []})
    with pytest.raises(BadInput, match=problem) if problem else contextlib.nullcontext():
        assert query(request, _Query).q


class Entry(BaseModel):
    name: str


class Entries(BaseModel):
    entries: Annotated[tuple[Entry, ...], Field(min_length=2)] = (Entry(name="a"), Entry(name="b"))
    labels: Annotated[frozenset[str], Field(min_length=2)] = frozenset("ab")


@pytest.mark.parametrize(
    ("given", "places"),
    [
        ({"entries": [{"name": "a"}, {}]}, ["entries.1.name"]),
        ({"entries": [{}]}, ["entries.0.name", "entries"]),
        ({"entries": []}, ["entries"]),
        ({"labels": ["a", "a"]}, ["labels"]),
    ],
)
def test_a_list_is_too_short_only_if_it_was_sent_so(given: dict[str, Any], places: list[str]) -> None:
    """pydantic also counts a list without its invalid items."""
    with pytest.raises(BadInput) as caught:
        checked(lambda: Entries.model_validate(given))
    assert [problem["at"] for problem in caught.value.detail["problems"]] == places


def refuse(goal: str) -> str:
    raise ValueError(f"{goal!r} is no goal")


class CheckedByUs(BaseModel):
    goal: Annotated[str, AfterValidator(refuse)]


def test_what_our_own_check_says_stands_alone() -> None:
    with pytest.raises(BadInput) as refused:
        checked(lambda: CheckedByUs.model_validate({"goal": "snr"}))
    assert refused.value.message == "goal: 'snr' is no goal"


def test_a_wrong_method_is_told_those_of_all_routes_of_the_path() -> None:
    declared = {"/a/{b}": ["POST"], "/a/b": ["GET"], "/c": ["PUT"]}
    routes = [Route(path, lambda _: Response(), methods=methods) for path, methods in declared.items()]
    app = Starlette(routes=routes, exception_handlers=EXCEPTION_HANDLERS)
    answer = asyncio.run(httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://web").delete("/a/b"))
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD, POST")
