"""The filter language of jobs, `status:failed snr:<20 tag:nightly yolo`: parses text into terms, and matches them.

Pure. All terms must match; commas within one (`status:failed,cancelled`) separate alternatives. Words without a key are
searched in the name, the tags, the model's file name and the id.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import inf

from app.conversion.model.digest import NUMBERS, STATES, JobDigest, pieces
from app.kit.errors import BadInput

MAX_TERMS = 20
LABELS = ("status", "verdict", "tag", "target", "owner", "method")
"""Keys whose values are compared as a whole, without regard to case."""
TEXTS = ("name", "model", "id")
"""Keys whose values match parts of words."""
KEYS = (*LABELS, *TEXTS, *NUMBERS)
SIZES = {"": 1, "b": 1, "k": 1 << 10, "kib": 1 << 10, "m": 1 << 20, "mib": 1 << 20, "g": 1 << 30, "gib": 1 << 30}
TIMES_MS = {"": 1.0, "ms": 1.0, "us": 0.001, "s": 1000.0}
SPANS_S = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
UNITS: Mapping[str, Mapping[str, float]] = {
    "snr": {"": 1.0, "db": 1.0},
    "size": SIZES,
    "latency": TIMES_MS,
    "took": SPANS_S,
    "created": SPANS_S,
}
EXAMPLES = {
    "snr": "snr:<20",
    "size": "size:>300K",
    "latency": "latency:<10ms",
    "took": "took:>1m",
    "created": "created:<7d or created:2026-11-20",
}
_TOKEN = re.compile(r'(?:(?P<key>[A-Za-z_]+):)?(?:"(?P<quoted>[^"]*)"|(?P<plain>[^\s"]+))')
_BOUND = re.compile(r"(?P<how><=|>=|<|>|=|)(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[A-Za-z]*)")
_DAY = re.compile(r"(?P<how><=|>=|<|>|=|)(?P<day>\d{4}-\d{2}-\d{2})")


class BadFilter(BadInput, code="FILTER_INVALID"):
    """The text is not a valid filter; its message names the term."""


@dataclass(frozen=True)
class Term:
    """One condition. Of a number: low <= value <= high, the ends omitted where they are open."""

    key: str
    """Of KEYS, or '' for a word without a key."""
    values: tuple[str, ...] = ()
    """Any of these, in lower case."""
    low: float = -inf
    high: float = inf
    is_low_open: bool = False
    is_high_open: bool = False

    def accepts(self, job: JobDigest) -> bool:
        if self.key in NUMBERS:
            value = job.numbers.get(self.key)
            return value is not None and self._holds(value)
        if self.key in LABELS:
            return any(value in job.labels[self.key] for value in self.values)
        return any(self._finds(value, job) for value in self.values)

    def _holds(self, value: float) -> bool:
        above = value > self.low if self.is_low_open else value >= self.low
        return above and (value < self.high if self.is_high_open else value <= self.high)

    def _finds(self, value: str, job: JobDigest) -> bool:
        if self.key in ("", "id") and job.job_id.startswith(value):
            return True
        if self.key == "id":
            return False
        words = job.words if self.key == "" else job.texts[self.key]
        sought = pieces(value)
        return bool(sought) and all(_is_in(piece, words) for piece in sought)


def _is_in(piece: str, words: frozenset[str]) -> bool:
    """Matches a part of one of the words; a single ASCII letter or digit matches only a whole word."""
    return piece in words if len(piece.encode()) == 1 else any(piece in word for word in words)


@dataclass(frozen=True)
class FilterExpression:
    """A parsed filter."""

    text: str = ""
    terms: tuple[Term, ...] = field(default=())
    """All must match."""

    def accepts(self, job: JobDigest) -> bool:
        return all(term.accepts(job) for term in self.terms)

    def newer_than(self, moment: float) -> FilterExpression:
        """The same filter for jobs created later.

        Args:
            moment: in seconds of the epoch.
        """
        later = Term("created", (), moment, is_low_open=True)
        return FilterExpression(self.text, (*self.terms, later))


def parse(text: str, *, now: datetime) -> FilterExpression:
    """Parses a filter.

    Args:
        text: the user's input.
        now: the reference time of ages (`created:<7d`).

    Raises:
        BadFilter: A term is invalid, or there are too many; the error says which, and shows a valid one.
    """
    terms = tuple(_parse_term(key, value, now) for key, value in _split_tokens(text))
    if len(terms) > MAX_TERMS:
        raise BadFilter(f"The filter has {len(terms)} terms.", hint=f"{MAX_TERMS} are the most.")
    return FilterExpression(" ".join(text.split()), terms)


def _split_tokens(text: str) -> Iterator[tuple[str, str]]:
    if text.count('"') % 2:
        raise BadFilter("A quotation mark is not closed.", hint='Write name:"my model" with one at each end.')
    for match in _TOKEN.finditer(text):
        if not match["key"] and match.group().startswith(":"):
            raise BadFilter(f"{match.group()!r} is not understood.", hint="A value follows its key: status:failed.")
        value = match["plain"] if match["quoted"] is None else match["quoted"]
        key = (match["key"] or "").lower()
        if key and key not in KEYS:
            raise BadFilter(f"There is no filter {key!r}.", hint=f"There are: {', '.join(KEYS)}.")
        if value.strip():
            yield key, value.strip().lower()


def _parse_term(key: str, value: str, now: datetime) -> Term:
    if key in NUMBERS:
        return _parse_number_term(key, value, now)
    values = tuple(part for part in value.split(",") if part) if key else (value,)
    if not values:
        raise BadFilter(f"{key}: has no value.", hint=f"Write for example {key}:something.")
    if key == "status":
        unknown = [part for part in values if part not in STATES]
        if unknown:
            raise BadFilter(f"There is no status {unknown[0]!r}.", hint=f"There are: {', '.join(STATES)}.")
    if key in ("", *TEXTS) and not all(pieces(part) for part in values):
        raise BadFilter(f"{value!r} has neither letters nor digits.", hint="Look for a part of a name.")
    return Term(key, values)


def _parse_number_term(key: str, value: str, now: datetime) -> Term:
    low, dots, high = value.partition("..")
    if dots:
        lower = _parse_bound(key, f">={low}", now) if low else Term(key)
        upper = _parse_bound(key, f"<={high}", now) if high else Term(key)
        if key == "created":  # of two ages, the greater one is the earlier time
            lower, upper = sorted((lower, upper), key=lambda term: max(term.low, -term.high))
            ends = sorted(end for term in (lower, upper) for end in (term.low, term.high) if abs(end) != inf)
            return Term(key, (), ends[0] if len(ends) == 2 else lower.low, ends[-1])
        return Term(key, (), lower.low, upper.high)
    return _parse_bound(key, value, now)


def _parse_bound(key: str, text: str, now: datetime) -> Term:
    day = _DAY.fullmatch(text)
    if key == "created" and day:
        return _parse_day_term(day["how"], day["day"])
    match = _BOUND.fullmatch(text)
    if match is None or match["unit"].lower() not in UNITS[key]:
        raise BadFilter(f"{key}: {text!r} is no value of it.", hint=f"Write for example {EXAMPLES[key]}.")
    number, how = float(match["number"]) * UNITS[key][match["unit"].lower()], match["how"]
    if key != "created":
        return _make_comparison(key, how, number)
    then = now.timestamp() - number
    mirrored = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "": ">=", "=": ">="}  # younger is later
    return _make_comparison(key, mirrored[how], then)


def _parse_day_term(how: str, text: str) -> Term:
    """By days of UTC."""
    try:
        begin = datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        raise BadFilter(f"created: there is no day {text}.", hint="Write for example created:2026-11-20.") from None
    first, next_day = begin.timestamp(), begin.timestamp() + SPANS_S["d"]
    match how:
        case "<":
            return Term("created", (), -inf, first, is_high_open=True)
        case "<=":
            return Term("created", (), -inf, next_day, is_high_open=True)
        case ">":
            return Term("created", (), next_day)
        case ">=":
            return Term("created", (), first)
    return Term("created", (), first, next_day, is_high_open=True)


def _make_comparison(key: str, how: str, number: float) -> Term:
    match how:
        case "<":
            return Term(key, (), -inf, number, is_high_open=True)
        case "<=":
            return Term(key, (), -inf, number)
        case ">":
            return Term(key, (), number, inf, is_low_open=True)
        case ">=":
            return Term(key, (), number)
    return Term(key, (), number, number)
