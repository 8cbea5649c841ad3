"""Rows in files of a data home, which its owner may change."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import pytest

from app.kit.errors import NotFound
from app.results.model.sink import Delivery, Sink, SinkContent, SinkKind
from app.results.senders.home_files import FileSender

SINK = Sink("5" * 32, "job", SinkKind.FILE, SinkContent.ROWS, "datasets/door", "", "2026-11-01T12:00:00.000Z", 0)
ROWS = [Delivery(number, {"id": f"row/{number}"}) for number in (1, 2)]
PATH = "datasets/door/job-rows-55555555-000000000.jsonl"


@dataclass
class Files:
    content: dict[str, bytes] = field(default_factory=dict)

    def read(self, owner: str, path: str) -> bytes:
        return self.content.get(path, b"")

    def write(self, owner: str, path: str, content: bytes) -> None:
        self.content[path] = content


def test_what_is_delivered_again_replaces_itself() -> None:
    files = Files()
    for rows in (ROWS, ROWS[1:]):
        assert FileSender(files, lambda _: "alice").send(SINK, rows) == ""
    assert [json.loads(line)["id"] for line in files.content[PATH].splitlines()] == ["row/1", "row/2"]


@pytest.mark.parametrize("content", [b"{", b"[]\n", b'{"frame": 1}\n', b"\xff\n", b'{"id": []}\n'])
def test_a_file_that_its_owner_has_changed_is_named_and_stays(content: bytes) -> None:
    files = Files({PATH: content})
    problem = FileSender(files, lambda _: "alice").send(SINK, ROWS)
    assert problem == f"{PATH} has other lines than this sink writes: move it away"
    assert files.content[PATH] == content


def test_a_producer_without_owner_is_said() -> None:
    def owner_of(uid: str) -> str:
        raise NotFound(f"There is no {uid}.")

    assert FileSender(Files(), owner_of).send(SINK, ROWS) == "There is no job"
