"""Times, sizes and numbers as pages show them. Pure functions of a language; `filters` are the same for Jinja."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from babel import Locale
from babel.dates import format_timedelta
from babel.numbers import format_decimal
from babel.support import NullTranslations
from jinja2 import pass_context
from jinja2.runtime import Context
from markupsafe import Markup

from app.kit import clock

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_JUST_NOW_S = 5


def file_size(size_bytes: int) -> str:
    """1536 → 1.5 KiB: three significant digits at most, units of 1024."""
    size, unit = float(size_bytes), 0
    while size >= 999.5 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    shown = f"{size:.0f}" if unit == 0 or size >= 99.95 else f"{size:.1f}"
    return f"{shown} {_UNITS[unit]}"


def duration(seconds: float, texts: NullTranslations) -> str:
    """0.42 → 0.4 s, 75 → 1 min 15 s, 3900 → 1 h 05 min: two units at most."""
    if seconds < 10:
        return texts.gettext("%(seconds)s s") % {"seconds": f"{seconds:.1f}"}
    whole = round(seconds)
    if whole < 60:
        return texts.gettext("%(seconds)s s") % {"seconds": whole}
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return texts.gettext("%(minutes)s min %(seconds)s s") % {"minutes": minutes, "seconds": f"{rest:02d}"}
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return texts.gettext("%(hours)s h %(minutes)s min") % {"hours": hours, "minutes": f"{minutes:02d}"}
    days, hours = divmod(hours, 24)
    return texts.gettext("%(days)s d %(hours)s h") % {"days": days, "hours": f"{hours:02d}"}


def ago(moment: datetime, now: datetime, texts: NullTranslations, locale: Locale) -> str:
    """The distance in words, "3 min. ago"; also of what is to come, "in 6 days".

    Args:
        moment: with a time zone.
        now: with a time zone.
        texts: translations of what Babel does not translate.
    """
    apart = moment - now
    if abs(apart.total_seconds()) < _JUST_NOW_S:
        return texts.gettext("just now")
    return format_timedelta(apart, add_direction=True, locale=locale, format="short", threshold=1.5)


def due(moment: datetime, now: datetime, texts: NullTranslations, locale: Locale) -> str:
    """Time until a future moment, "in 6 days": in days if it is more than one. Arguments as of `ago`."""
    days = round((moment - now).total_seconds() / 86400)
    if days < 2:
        return ago(moment, now, texts, locale)
    return texts.ngettext("in %(num)s day", "in %(num)s days", days) % {"num": days}


def exact(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def filters(texts: NullTranslations, locale: Locale) -> dict[str, Callable[..., Any]]:
    @pass_context
    def ago_(context: Context, moment: datetime | str) -> Markup:
        """A <time> element with the exact time as its title. moment: a datetime, or the ISO text of a record."""
        when = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
        shown = ago(when, context.get("now") or clock.now(), texts, locale)
        text = '<time class="ago" datetime="{}" title="{}">{}</time>'
        return Markup(text).format(clock.to_text(when), exact(when), shown)  # noqa: S704  # format() escapes

    @pass_context
    def due_(context: Context, moment: datetime) -> Markup:
        shown = due(moment, context.get("now") or clock.now(), texts, locale)
        text = '<time datetime="{}" title="{}">{}</time>'
        return Markup(text).format(clock.to_text(moment), exact(moment), shown)  # noqa: S704  # format() escapes

    def number(value: float, digits: int | None = None) -> Markup:
        """In tabular figures, with thousands separators; digits: number of decimal places."""
        pattern = None if digits is None else "#,##0" + ("." + "0" * digits if digits else "")
        shown = format_decimal(value, format=pattern, locale=locale)
        return Markup('<span class="num">{}</span>').format(shown)

    return {
        "ago": ago_,
        "due": due_,
        "exact": lambda text: exact(datetime.fromisoformat(text)),
        "filesize": file_size,
        "duration": lambda seconds: duration(seconds, texts),
        "number": number,
        "short_id": lambda job_id: str(job_id)[:8],
    }
