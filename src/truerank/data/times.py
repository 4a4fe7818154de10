"""Times as they are written: numbers, ISO dates, dates with the day or the month first, and given formats.

A form is recognised by the whole column, not by its first value: ``03/04/2011`` alone may be March or April,
but one ``31/12/2011`` decides for all. What stays ambiguous is an error that asks for a format. Dates become
seconds since 1970; without a zone they are taken as UTC.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

import polars as pl

from truerank.core.errors import InvalidData

#: Names of units for ``time_format``, as fractions of a second.
UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}

_FIRST_DAY, _LAST_DAY = 19000101, 22001231
_DATE = (
    r"^(?P<a>\d{1,4}|[A-Za-z]{3,9})(?P<mark>[-/. ])(?P<b>\d{1,2}|[A-Za-z]{3,9})(?:[-/. ]|, )(?P<c>\d{1,4})"
    r"(?:(?:[T ]|, )(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,](?P<fraction>\d{1,9}))?)?"
    r" ?(?P<half>[AaPp][Mm])?)?"
    r" ?(?P<zone>Z|z|UTC|GMT|[+-]\d{2}:?\d{2}|[+-]\d{2})?$"
)
_WITH_WEEKDAY = "%a %b %d %H:%M:%S %z %Y"
_ORDERS = {
    "year-month-day": ("year", "month", "day"),
    "day/month/year": ("day", "month", "year"),
    "month/day/year": ("month", "day", "year"),
    "day.month.year": ("day", "month", "year"),
    "day month year": ("day", "month", "year"),
    "month day, year": ("month", "day", "year"),
}
_FORMATS = {"year-month-day": "%Y-%m-%d", "day/month/year": "%d-%m-%Y", "month/day/year": "%m-%d-%Y"}
_CLOCKS = ("%H", "%I", "%k", "%l", "%T", "%R", "%s", "%c", "%X", "%+")
_BLOCK = 1 << 18  # rows whose parts are in memory at a time
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


@dataclass(frozen=True)
class Times:
    """Times of a column.

    Parameters
    ----------
    seconds : numbers as they are, dates as seconds since 1970; null where a value cannot be read
    form : how dates were read, in words; empty for numbers
    """

    seconds: pl.Series
    form: str = ""

    def __str__(self) -> str:
        ends = [_day(end) for end in (self.seconds.min(), self.seconds.max())]
        return f"{self.form}, from {ends[0]} to {ends[1]} (UTC where no zone is written)"


class AmbiguousTimes(InvalidData):
    """Dates that can be read in two ways; the message holds what is known of them."""


def read_times(values: pl.Series, time_format: str | None = None) -> Times:
    """Return the times of a column of numbers, dates or texts; null where a value cannot be read.

    Parameters
    ----------
    values : numbers, dates or texts without surrounding blanks
    time_format : None recognises the usual forms; ``s``, ``ms``, ``us`` or ``ns`` says the unit of numbers,
        which become seconds; anything else is a format such as ``%d/%m/%Y %H:%M``

    Raises
    ------
    AmbiguousTimes
        When dates may have the day or the month first, or years of two digits.

    Examples
    --------
    >>> read_times(pl.Series(["12/1/2010 8:26", "12/31/2010 17:00"])).form
    'month/day/year'
    >>> read_times(pl.Series(["20111231", "20120101"])).seconds.to_list()
    [1325289600, 1325376000]
    """
    if values.dtype.is_decimal():
        values = values.cast(pl.String).str.replace(r"\.0*$", "")
    if values.dtype == pl.Date:
        values = values.cast(pl.Datetime("us"))
    if isinstance(values.dtype, pl.Datetime):
        return Times(_seconds(values), "" if time_format is None else "dates of the file")
    if time_format in UNITS:
        numbers = values if values.dtype.is_numeric() else _numbers(values)
        return Times(numbers if time_format == "s" else numbers.cast(pl.Float64) / UNITS[time_format])
    if time_format is not None:
        return Times(_formatted(values.cast(pl.String), time_format), f"dates written {time_format}")
    if values.dtype != pl.String:
        return _compact(values) or Times(values)
    numbers = _numbers(values)
    if numbers.null_count() == values.null_count():
        return _compact(numbers) or Times(numbers)
    dates = _written(values)
    return Times(numbers) if dates.seconds.null_count() > numbers.null_count() else dates


def _numbers(texts: pl.Series) -> pl.Series:
    """Return whole numbers where all are whole, else numbers; whole ones that would be rounded are null."""
    whole = texts.cast(pl.Int64, strict=False)
    if whole.null_count() == texts.null_count():
        return whole
    numbers = texts.cast(pl.Float64, strict=False)
    is_rounded = texts.str.contains(r"^[+-]?\d+$") & (numbers.abs() >= 2.0**53)
    return pl.select(pl.when(is_rounded).then(None).otherwise(numbers)).to_series()


def _compact(numbers: pl.Series) -> Times | None:
    """Read 20111231 or 20111231235959 as dates, if every number is one."""
    if not numbers.dtype.is_integer() or numbers.null_count() or not len(numbers):
        return None
    low, high = int(numbers.min()), int(numbers.max())  # type: ignore[arg-type]
    for factor, format in ((1, "%Y%m%d"), (1_000_000, "%Y%m%d%H%M%S")):
        if _FIRST_DAY * factor <= low and high < (_LAST_DAY + 1) * factor:
            seconds = _formatted(numbers.cast(pl.String), format)
            if not seconds.null_count():
                written = "yyyymmdd" if factor == 1 else "yyyymmddhhmmss"
                return Times(seconds, f"dates written {written}")
    return None


def _formatted(texts: pl.Series, format: str) -> pl.Series:
    try:
        return _seconds(_parsed(texts, format))
    except (pl.exceptions.PolarsError, UnicodeError):  # of bytes of a terminal that are no text
        return pl.Series([None] * len(texts), dtype=pl.Int64)


def _parsed(texts: pl.Series, format: str) -> pl.Series:
    """Return the moments in UTC, without a zone; null where a value is not written so."""
    if not any(mark in format for mark in _CLOCKS):
        return texts.str.to_date(format, strict=False).cast(pl.Datetime("us"))
    moments = texts.str.to_datetime(format, strict=False, time_unit="us")
    return moments.dt.convert_time_zone("UTC").dt.replace_time_zone(None) if "z" in format else moments


def _seconds(moments: pl.Series) -> pl.Series:
    micro = moments.dt.timestamp("us")
    if not (micro % 1_000_000 != 0).any():
        return micro // 1_000_000
    return micro.cast(pl.Float64) / 1e6


def _written(texts: pl.Series) -> Times:
    """Read dates written with separators; the order of day and month is that which fits all values."""
    blocks = [texts.slice(start, _BLOCK) for start in range(0, len(texts), _BLOCK)]
    start = next((found for text in texts.head(_BLOCK) if text and (found := re.match(_DATE, text))), None)
    if start is None:
        return Times(_formatted(texts, _WITH_WEEKDAY), "dates written Wed Aug 27 13:08:45 +0000 2008")
    order = _order(start, blocks)
    return Times(_seconds(pl.concat([_moments(block, order, start) for block in blocks])), order)


def _moments(texts: pl.Series, order: str, start: re.Match[str]) -> pl.Series:
    """Return the moments; null where a value is not written in this order, or with another clock."""
    format = _format(order, start)
    if format is not None:  # ten times faster, where every value is written as the first one
        moments = _parsed(texts, format)
        if not moments.null_count() and (moments.dt.year() >= 1000).all():
            return moments
    has_zone = start["zone"] is not None
    parts = texts.str.extract_groups(_DATE).struct.unnest()
    at = dict(zip(_ORDERS[order], "abc", strict=True))
    year, day = (pl.col(at[name]).cast(pl.Int64, strict=False) for name in ("year", "day"))
    clock = parts.select(
        day=pl.concat_str([year, _month(pl.col(at["month"])), day], separator="-")
        .str.to_date("%Y-%m-%d", strict=False)
        .cast(pl.Datetime("us"))
        .dt.timestamp("us"),
        hour=_hour(),
        minute=pl.col("minute").cast(pl.Int64).fill_null(0),
        second=pl.col("second").cast(pl.Int64).fill_null(0),
        micro=pl.col("fraction").str.slice(0, 6).str.pad_end(6, "0").cast(pl.Int64).fill_null(0),
        ahead=_ahead(),
        fits=(pl.col(at["year"]).str.len_bytes() == 4) & (pl.col("zone").is_not_null() == has_zone),
    )
    fits = pl.col("fits") & (pl.col("hour") < 24) & (pl.col("minute") < 60) & (pl.col("second") < 61)
    within = pl.col("hour") * 3600 + pl.col("minute") * 60 + pl.col("second") - pl.col("ahead")
    micro = clock.select(pl.when(fits).then(pl.col("day") + within * 1_000_000 + pl.col("micro"))).to_series()
    return micro.cast(pl.Datetime("us"))


def _format(order: str, start: re.Match[str]) -> str | None:
    """Return the format of a value, if its month is a number and its hours are those of a day of 24."""
    if start["half"] or order not in _FORMATS:
        return None
    format = _FORMATS[order].replace("-", start["mark"])
    if start["hour"]:
        format += start[0][start.end("c") : start.start("hour")] + "%H:%M"
        format += "" if start["second"] is None else ":%S%.f" if start["fraction"] else ":%S"
    return format + ("%#z" if start["zone"] else "")


def _order(start: re.Match[str], blocks: list[pl.Series]) -> str:
    """Return the order of year, month and day: one of `_ORDERS`."""
    a, b, c = start["a"], start["b"], start["c"]
    if a.isalpha():
        return "month day, year"
    if len(a) == 4:
        return "year-month-day"
    if len(c) < 4:
        raise AmbiguousTimes(f"{start[0]!r} has a year of two digits")
    if b.isalpha():
        return "day month year"
    if start["mark"] == ".":
        return "day.month.year"
    by_day = _first_match(blocks, r"^(1[3-9]|[23]\d)[-/. ]")
    by_month = _first_match(blocks, r"^\d{1,2}[-/. ](1[3-9]|[23]\d)[-/. ]")
    if by_day and by_month:
        raise AmbiguousTimes(f"{by_day!r} has the day first and {by_month!r} the month")
    if not by_day and not by_month:
        raise AmbiguousTimes(
            f"{start[0]!r} may have the day or the month first, and no other value decides it"
        )
    return "day/month/year" if by_day else "month/day/year"


def _first_match(blocks: list[pl.Series], pattern: str) -> str | None:
    for block in blocks:
        found = block.str.contains(pattern).fill_null(False)
        if found.any():
            return str(block[int(found.arg_max() or 0)])
    return None


def _month(part: pl.Expr) -> pl.Expr:
    """Return months written as numbers or as names of at least three letters."""
    short = part.str.to_lowercase().str.slice(0, 3)
    named = short.replace_strict({name: at + 1 for at, name in enumerate(_MONTHS)}, default=None)
    return pl.coalesce(part.cast(pl.Int64, strict=False), named.cast(pl.Int64))


def _hour() -> pl.Expr:
    """Return the hour of a day of 24; 12 am is 0 and 12 pm is 12."""
    hour, half = pl.col("hour").cast(pl.Int64).fill_null(0), pl.col("half").str.to_lowercase()
    return pl.when(half.is_null()).then(hour).otherwise(hour % 12 + 12 * (half == "pm").cast(pl.Int64))


def _ahead() -> pl.Expr:
    """Return how many seconds the clock of the zone is ahead of UTC."""
    zone = pl.col("zone")
    hours = zone.str.extract(r"^[+-](\d{2})").cast(pl.Int64) * 3600
    minutes = zone.str.extract(r"^[+-]\d{2}:?(\d{2})").cast(pl.Int64).fill_null(0) * 60
    ahead = pl.when(zone.str.starts_with("-")).then(-(hours + minutes)).otherwise(hours + minutes)
    return ahead.fill_null(0)


def _day(seconds: object) -> str:
    try:
        return datetime.fromtimestamp(float(str(seconds)), UTC).strftime("%Y-%m-%d")
    except (ValueError, OverflowError, OSError):
        return str(seconds)
