"""Two to eight jobs side by side, as a page and as CSV. The URL names them all, so it is a permalink."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.conversion.access import conversion_of
from app.conversion.errors import JobNotFound
from app.conversion.model import JobRecord
from app.conversion.pages.pareto import ParetoView, view_of
from app.conversion.service import Conversion
from app.conversion.service.answers import AnsweredPicture, Answers, load_answers
from app.conversion.service.comparison import JobsComparison, LayerPair, compare
from app.conversion.service.quality.candidates import Candidate
from app.conversion.service.quality.views import EXACT_DB
from app.conversion.store import JobFilter
from app.conversion.toolchains.base import SNR_DB_MIN
from app.kit.errors import BadRequest
from app.kit.text.plain_text import csv_text
from app.kit.web import charts
from app.kit.web.auth import user_of
from app.kit.web.downloads import CSV, text_file
from app.kit.web.templates import render

LETTERS = "abcdefgh"
"""Names of the URL's parameters; there can be as many jobs as letters."""
RECENT = 30
LAYERS_SHOWN = 10
OUTPUTS_SHOWN = 8
PICTURES_SHOWN = 4


@dataclass(frozen=True)
class ComparedJob:
    """One of the compared jobs."""

    letter: str
    """Name of its parameter in the URL."""
    job_id: str
    """As given in the URL; empty when none is chosen."""
    job: JobRecord | None
    """None if the job does not exist here."""

    @property
    def is_missing(self) -> bool:
        return bool(self.job_id) and self.job is None


def page(request: Request) -> Response:
    """Renders the comparison; with fewer than two jobs, the form that chooses them."""
    conversion, user = conversion_of(request), user_of(request)
    sides = _load_sides(conversion, request, user)
    recent, _ = conversion.jobs.page(JobFilter(), user, limit=RECENT, cursor=None)
    chosen = [side for side in sides if side.job is not None]
    jobs = [side.job for side in chosen if side.job is not None]
    comparison = compare(conversion, jobs) if len(jobs) > 1 else None
    return render(
        request,
        "conversion/compare.html",
        area="compare",
        sides=sides,
        letters=[side.letter.upper() for side in chosen],
        recent=recent,
        comparison=comparison,
        pareto=_plot_pareto(comparison, [side.letter for side in chosen]) if comparison else None,
        pictures=_pair_pictures(conversion, comparison) if comparison else [],
        charts=charts,
        points=points,
        layers_shown=LAYERS_SHOWN,
        outputs_shown=OUTPUTS_SHOWN,
        rule_db=SNR_DB_MIN,
        exact_db=EXACT_DB,
        permalink=compare_url([job.job_id for job in jobs]),
        csv_url=compare_url([job.job_id for job in jobs], ".csv"),
        swapped=compare_url([job.job_id for job in reversed(jobs)]),
        is_full=len(sides) >= len(LETTERS),
    )


def as_csv(request: Request) -> Response:
    """Sends the comparison as CSV, with a line for each number and a column for each job."""
    conversion, user = conversion_of(request), user_of(request)
    jobs = [side.job for side in _load_sides(conversion, request, user) if side.job is not None]
    if len(jobs) < 2:
        raise BadRequest("Two jobs or more can be compared.", hint="Name them as a=…&b=….")
    return text_file(csv_text(lines(compare(conversion, jobs))), "compare.csv", CSV)


def lines(comparison: JobsComparison) -> Iterator[Sequence[object]]:
    """Yields the lines of the CSV: section, name, and the value of each job."""
    yield ["section", "name", *(job.name or job.job_id for job in comparison.jobs)]
    yield ["job", "job_id", *(job.job_id for job in comparison.jobs)]
    yield ["job", "status", *(job.status.value for job in comparison.jobs)]
    yield ["job", "verdict", *(job.verdict.value if job.verdict else None for job in comparison.jobs)]
    yield ["quality", "snr_db", *(job.snr_db for job in comparison.jobs)]
    pairs = [(q.size_bytes, q.latency_ms) for q in comparison.qualities]
    yield ["size", "int8_bytes", *(size.int8 if size else None for size, _ in pairs)]
    yield ["latency", "int8_ms", *(latency.int8 if latency else None for _, latency in pairs)]
    yield from (["seconds", row.name, *row.values] for row in comparison.times)
    yield from (["option", row.name, *map(_parse_option, row.values)] for row in comparison.options)
    yield from (["output", row.name, *row.snr_db] for row in comparison.outputs)
    if len(comparison.jobs) == 2:
        pairs_of_layers = [(p.a.name, p.a.snr_db.shown, p.b.snr_db.shown) for p in comparison.layers]
        yield from (["layer", *pair] for pair in pairs_of_layers)


def _parse_option(value: object) -> object:
    return ", ".join(map(str, value)) if isinstance(value, list) else value


def compare_url(job_ids: Sequence[str], ending: str = "") -> str:
    """Returns the permalink of a comparison."""
    return f"/ui/jobs/compare{ending}?{urlencode(dict(zip(LETTERS, job_ids, strict=False)))}"


def candidates(comparison: JobsComparison, letters: Sequence[str]) -> list[Candidate]:
    """Returns the jobs as points of the plots; none of them is the chosen one."""
    matching = []
    for place, (job, quality) in enumerate(zip(comparison.jobs, comparison.qualities, strict=True)):
        size, latency = quality.size_bytes, quality.latency_ms
        matching.append(
            Candidate(
                id=place,
                name=f"{letters[place].upper()} {job.name}".strip(),
                snr_db=job.snr_db,
                size_bytes=int(size.int8) if size else None,
                latency_ms=latency.int8 if latency else None,
            )
        )
    return matching


def _plot_pareto(comparison: JobsComparison, letters: Sequence[str]) -> ParetoView:
    """Plots the jobs. If they have different models, no front is drawn, since their quality cannot be compared."""
    front = None if comparison.is_same_model else frozenset[int]()
    return view_of(candidates(comparison, letters), SNR_DB_MIN, front=front)


def points(pairs: Sequence[LayerPair]) -> list[charts.ChartPoint]:
    """Returns the layers as points: their SNR in one job against that in the other."""
    return [
        charts.ChartPoint(
            x=pair.a.snr_db.shown or 0.0,
            y=pair.b.snr_db.shown or 0.0,
            tip=f"{pair.a.name} ({pair.a.op_type}): A {pair.a.snr_db.shown} dB, B {pair.b.snr_db.shown} dB",
            kind="is-better" if pair.change_db > 0 else "is-worse" if pair.change_db < 0 else "",
        )
        for pair in pairs
    ]


@dataclass(frozen=True)
class PicturePair:
    """The answers of two jobs to the same picture."""

    name: str
    a: AnsweredPicture
    b: AnsweredPicture


def picture_pairs(comparison: JobsComparison, first: Answers, second: Answers) -> list[PicturePair]:
    """Pairs the pictures for which both jobs of one model have answers, the first job's worst pictures first."""
    places = [
        {quality.worst_samples[one.place].name: one for one in answers.pictures}
        for quality, answers in zip(comparison.qualities, (first, second), strict=True)
    ]
    return [PicturePair(name, one, places[1][name]) for name, one in places[0].items() if name in places[1]]


def _pair_pictures(conversion: Conversion, comparison: JobsComparison) -> list[PicturePair]:
    """Returns pairs only if the answers of both jobs exist already; a comparison runs no model."""
    if len(comparison.jobs) != 2 or not (comparison.is_same_model and comparison.is_same_pictures):
        return []
    first, second = (load_answers(conversion, job) for job in comparison.jobs)
    return picture_pairs(comparison, first, second)[:PICTURES_SHOWN] if first and second else []


def _load_sides(conversion: Conversion, request: Request, user: str) -> list[ComparedJob]:
    """Returns at least two sides, even if nothing is chosen for them, and every further job that the URL names."""
    criteria = {letter: request.query_params.get(letter, "").strip() for letter in LETTERS}
    return [
        _load_side(conversion, letter, criteria[letter], user)
        for letter in LETTERS
        if letter in "ab" or criteria[letter]
    ]


def _load_side(conversion: Conversion, letter: str, job_id: str, user: str) -> ComparedJob:
    try:
        return ComparedJob(letter, job_id, conversion.jobs.known(job_id, user) if job_id else None)
    except JobNotFound:
        return ComparedJob(letter, job_id, None)


ROUTES = [Route("/ui/jobs/compare", page), Route("/ui/jobs/compare.csv", as_csv)]
