"""An index over records in Redis: which records of a group match terms, words and numbers, in an order.

Each script that changes a record marks it dirty in the same step. A search first updates the index for all dirty
records, so no answer is older than the question. A doc is stored only if its record did not change since it was read:
two concurrent updates cannot undo each other. This module does not interpret records.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.kit.redis import record_index_scripts as scripts
from app.kit.redis.records import Records

PORTION = 200
FEW = 5_000
"""With several conditions: if the rarest matches at most this many records, they are collected and sorted. Above that
they are counted, and the page is filled by following the order."""
NONE = "+inf"
"""Replaces a missing number; such records are sorted last in either direction."""


@dataclass(frozen=True)
class IndexDoc:
    """The indexed values of a record."""

    group: str
    terms: frozenset[str]
    """Matched as a whole."""
    words: frozenset[tuple[str, str]]
    """(kind, word), matched by any part."""
    numbers: Mapping[str, float | None]
    """By name; each record has the same names."""

    def to_text(self) -> str:
        numbers = {name: NONE if number is None else number for name, number in self.numbers.items()}
        doc = {
            "group": self.group,
            "terms": sorted(self.terms),
            "words": sorted(f"{kind}:{word}" for kind, word in self.words),
            "numbers": numbers,
        }
        return json.dumps(doc, ensure_ascii=False, sort_keys=True)


@dataclass(frozen=True)
class SearchPlan:
    """A query and its sort order."""

    clauses: Sequence[Mapping[str, Any]]
    """See record_index_scripts.SEARCH; all must match."""
    sort: str
    """Name of a number."""
    is_descending: bool
    offset: int
    limit: int


class RecordIndex:
    """
    Args:
        digest: creates the doc from a record's fields.
        few: see FEW.
        form: names the format of `digest`; with another name, the index is rebuilt.
    """

    def __init__(self, records: Records, digest: Callable[[dict[str, str]], IndexDoc], *, form: str, few: int) -> None:
        self._records = records
        self._digest = digest
        self._form = form
        self._few = few
        client = records.client
        self._adopt = client.register_script(scripts.ADOPT)
        self._dirty = client.register_script(scripts.DIRTY)
        self._put = client.register_script(scripts.PUT)
        self._search = client.register_script(scripts.SEARCH)

    def refresh(self) -> None:
        """Updates the index with every change that happened before this call."""
        prefix = self._records.index_prefix
        self._adopt(keys=[self._records.all_index], args=[prefix, self._form])
        while True:
            counts = _read_pairs(self._dirty(args=[prefix, PORTION]))
            read = self._records.read_many(counts)
            parts: list[str] = []
            for (record_id, count), fields in zip(counts.items(), read, strict=True):
                parts += (record_id, count, self._digest(fields).to_text() if fields else "")
            if parts:
                self._put(args=[prefix, *parts])
            if len(counts) < PORTION:
                return

    def search(self, group: str, plan: SearchPlan) -> tuple[int, list[str]]:
        """Returns the number of matches, and the ids of this page."""
        self.refresh()
        clauses = [dict(clause) for clause in plan.clauses]
        text = json.dumps({**vars(plan), "clauses": clauses}, ensure_ascii=False)
        total, *ids = self._search(args=[f"{self._records.index_prefix}{group}:", text, self._few])
        return int(total), [i.decode() for i in ids]

    def counts(self, group: str, terms: Iterable[str]) -> dict[str, int]:
        """Returns how many records have each of these terms."""
        self.refresh()
        names = list(terms)
        with self._records.client.pipeline(transaction=False) as pipe:
            for term in names:
                pipe.scard(f"{self._records.index_prefix}{group}:t:{term}")
            return dict(zip(names, pipe.execute(), strict=True))

    def words(self, group: str, kind: str, beginning: str, *, at_most: int) -> list[str]:
        """Returns words with a part that starts with this text, for completion.

        Args:
            group: the group of the records.
            kind: the kind of words.
            beginning: the start of a part; empty: every word.
            at_most: the maximum number to check.
        """
        self.refresh()
        start = f"[{kind}:{beginning}"
        name = f"{self._records.index_prefix}{group}:words"
        ends = self._records.client.zrangebylex(name, start, start.encode() + b"\xff", start=0, num=at_most)
        return list(dict.fromkeys(end.split(b"\0")[1].decode() for end in ends))


def _read_pairs(flat: Sequence[bytes]) -> dict[str, str]:
    return {record_id.decode(): count.decode() for record_id, count in zip(flat[::2], flat[1::2], strict=True)}
