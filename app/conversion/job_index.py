"""Finds a user's jobs by a filter, in any order, among however many: an index in Redis beside the records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import inf

from app.conversion import model
from app.conversion.model.digest import NUMBERS, JobDigest, digest, pieces
from app.conversion.model.job_filter import LABELS, FilterExpression, Term
from app.conversion.store import JobStore
from app.kit.redis.record_index import FEW, IndexDoc, RecordIndex, SearchPlan
from app.kit.text.json_values import JsonObject

FORM = "2"
"""Change it whenever the indexed data of a record changes: the index is then rebuilt."""
KINDS = ("name", "model", "tag")
"""The kinds of words that are searched."""
NAME_BYTES = 6
"""Maximum length of a name for sorting: what fits into the 53 bits of a score."""
STATUS_ORDER = ("running", "failed", "cancelled", "below", "unmeasured", "passed")


class Sort(StrEnum):
    """What a list can be sorted by."""

    CREATED = "created"
    NAME = "name"
    STATUS = "status"
    TARGET = "target"
    SNR = "snr"
    SIZE = "size"
    LATENCY = "latency"
    TOOK = "took"


@dataclass(frozen=True)
class JobMatches:
    """A page of the jobs that match."""

    total: int
    """The number of jobs on all pages."""
    job_ids: Sequence[str]


class JobIndex:
    """
    Args:
        few: see record_index.FEW.
    """

    def __init__(self, store: JobStore, *, few: int = FEW) -> None:
        self._index = RecordIndex(store.records, _build_document, form=FORM, few=few)

    def search(
        self,
        query: FilterExpression,
        owner: str,
        *,
        sort: Sort = Sort.CREATED,
        is_descending: bool = True,
        offset: int = 0,
        limit: int,
    ) -> JobMatches:
        """Returns this owner's jobs that match the filter. Jobs without a value to sort by come last in either order.

        Args:
            offset: how many of the matching jobs to skip.
            limit: how many to return at most.

        Returns:
            The number of matches, and the ids of this page.
        """
        clauses = [_build_clause(term, owner) for term in query.terms]
        if any(clause is None for clause in clauses):
            return JobMatches(0, [])
        kept = [clause for clause in clauses if clause]
        plan = SearchPlan(kept, sort.value, is_descending, offset, limit)
        return JobMatches(*self._index.search(owner, plan))

    def counts(self, owner: str, labels: Sequence[str]) -> Mapping[str, int]:
        """The number of this owner's jobs with each of these labels, for example status:failed."""
        return self._index.counts(owner, labels)

    def completions(self, owner: str, key: str, beginning: str, *, at_most: int) -> list[str]:
        """Returns words of this owner's jobs that complete a value.

        Args:
            key: name, model or tag; other keys have no completion.
            beginning: empty: every word.
            at_most: the maximum number of words to check.
        """
        return self._index.words(owner, key, beginning, at_most=at_most) if key in KINDS else []


def _build_document(fields: dict[str, str]) -> IndexDoc:
    record = model.from_fields(fields)
    matching = digest(record)
    terms = {f"{kind}:{value}" for kind, values in matching.labels.items() if kind != "owner" for value in values}
    words = {(kind, word) for kind, texts in _build_words(matching).items() for word in texts}
    order = STATUS_ORDER.index(_summarize_status(matching))
    [target] = matching.labels["target"]
    numbers = {name: matching.numbers.get(name) for name in NUMBERS}
    numbers |= {"name": _place_of_text(record.name), "status": order, "target": _place_of_text(target)}
    return IndexDoc(record.owner, frozenset(terms), frozenset(words), numbers)


def _build_words(matching: JobDigest) -> dict[str, frozenset[str]]:
    return {**matching.texts, "tag": frozenset(piece for tag in matching.labels["tag"] for piece in pieces(tag))}


def _summarize_status(matching: JobDigest) -> str:
    """Of STATUS_ORDER."""
    [word] = matching.labels["verdict"] or (matching.labels["status"] & set(STATUS_ORDER))
    return word


def _place_of_text(text: str) -> float | None:
    """A number that sorts like the start of the text; None for an empty one."""
    beginning = text.lower().encode()[:NAME_BYTES]
    return float(int.from_bytes(beginning.ljust(NAME_BYTES, b"\0"))) if text else None


def _build_clause(term: Term, owner: str) -> JsonObject | None:
    """For the index; {} if every job of the owner matches, None if none does."""
    if term.key in NUMBERS:
        # A missing value is +inf in the index, which no bound of a filter reaches.
        low = f"{'(' if term.is_low_open else ''}{term.low!r}"
        high = "(inf" if term.high == inf else f"{'(' if term.is_high_open else ''}{term.high!r}"
        return {"number": term.key, "low": low, "high": high}
    if term.key == "owner":
        return {} if owner.lower() in term.values else None
    if term.key in LABELS:
        return {"any": [{"terms": [f"{term.key}:{value}" for value in term.values]}]}
    return {"any": [alternative for value in term.values for alternative in _list_alternatives(term.key, value)]}


def _list_alternatives(key: str, value: str) -> list[JsonObject]:
    """The alternatives in which a text is searched."""
    in_words = {"kinds": list(KINDS if key == "" else (key,)), "pieces": list(pieces(value))}
    as_id = {"id": value}
    return [as_id] if key == "id" else [in_words, as_id] if key == "" else [in_words]
