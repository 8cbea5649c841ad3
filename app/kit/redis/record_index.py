"""An index over records in Redis: which of a group have these terms, words and numbers, in which order.

Each script that changes a record marks it dirty in the same step; who searches first brings the index up to date with
what is dirty, so an answer is never older than the question. A doc is put only if its record did not change since it
was read: two that bring it up to date at once cannot undo each other. This module knows no record's meaning.
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
"""Of several conditions: where so many records fit the rarest, they are brought together and sorted. Of more they are
counted, and the page is made by going along the order until it is full."""
NONE = "+inf"
"""In place of a number that a record has not; it is sorted last either way."""


@dataclass(frozen=True)
class IndexDoc:
    """What is indexed of a record."""

    group: str
    terms: frozenset[str]
    """Found as a whole."""
    words: frozenset[tuple[str, str]]
    """(kind, word), found by any part."""
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
    """What is searched for, and in which order it comes."""

    clauses: Sequence[Mapping[str, Any]]
    """See record_index_scripts.SEARCH; all must hold."""
    sort: str
    """Name of a number."""
    is_descending: bool
    offset: int
    limit: int


class RecordIndex:
    """Args:
    digest: makes the doc of a record's fields.
    few: see FEW.
    form: names what `digest` makes; with another name, the index is made anew.
    """

    def __init__(
        self, records: Records, digest: Callable[[dict[str, str]], IndexDoc], *, form: str, few: int = FEW
    ) -> None:
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
        """Bring the index up to date with every change that came before this call."""
        prefix = self._records.index_prefix
        self._adopt(keys=[self._records.all_index], args=[prefix, self._form])
        while True:
            counts = _pairs(self._dirty(args=[prefix, PORTION]))
            read = self._records.read_many(counts)
            parts: list[str] = []
            for (record_id, count), fields in zip(counts.items(), read, strict=True):
                parts += (record_id, count, self._digest(fields).to_text() if fields else "")
            if parts:
                self._put(args=[prefix, *parts])
            if len(counts) < PORTION:
                return

    def search(self, group: str, plan: SearchPlan) -> tuple[int, list[str]]:
        """How many there are, and the ids of this page of them."""
        self.refresh()
        clauses = [dict(clause) for clause in plan.clauses]
        text = json.dumps({**vars(plan), "clauses": clauses}, ensure_ascii=False)
        total, *ids = self._search(args=[f"{self._records.index_prefix}{group}:", text, self._few])
        return int(total), [i.decode() for i in ids]

    def counts(self, group: str, terms: Iterable[str]) -> dict[str, int]:
        """How many records have each of these terms."""
        self.refresh()
        names = list(terms)
        with self._records.client.pipeline(transaction=False) as pipe:
            for term in names:
                pipe.scard(f"{self._records.index_prefix}{group}:t:{term}")
            return dict(zip(names, pipe.execute(), strict=True))

    def words(self, group: str, kind: str, beginning: str, *, at_most: int) -> list[str]:
        """Words that have a part with this beginning, for completion.

        Args:
            group: whose records.
            kind: of words, as the index was given them.
            beginning: empty: every word.
            at_most: how many are looked at.
        """
        self.refresh()
        start = f"[{kind}:{beginning}"
        name = f"{self._records.index_prefix}{group}:words"
        ends = self._records.client.zrangebylex(name, start, start.encode() + b"\xff", start=0, num=at_most)
        return list(dict.fromkeys(end.split(b"\0")[1].decode() for end in ends))


def _pairs(flat: Sequence[bytes]) -> dict[str, str]:
    return {record_id.decode(): count.decode() for record_id, count in zip(flat[::2], flat[1::2], strict=True)}
