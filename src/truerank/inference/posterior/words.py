"""What posterior intervals hold, in plain words: the sentences below a table and in a report."""

from __future__ import annotations

import re
from collections.abc import Iterable

from truerank.core.result import Estimate
from truerank.core.table import listed_in_words, percent
from truerank.inference.estimate_interval.base import EXCLUDES

_HOLDS = {"test-users": "the exact value", "population": "the value of the user population"}
_RANK = re.compile(r"; below rank ([\d,]+) the prior decides")


def without_rank(method: str) -> str:
    """Return the name of an interval's method without the rank below which the prior decides.

    Of posterior intervals that do not hold the estimate it leaves out the reason as well: that is a sentence
    of ``posterior_sentences``.

    Examples
    --------
    >>> without_rank("posterior; below rank 37 the prior decides"), without_rank("delta, ignores bias")
    ('posterior', 'delta, ignores bias')
    """
    return _RANK.sub("", method.partition(EXCLUDES)[0] if method.startswith("posterior") else method)


def posterior_sentences(estimates: Iterable[Estimate]) -> list[str]:
    """Return what posterior intervals hold, where the prior decides, and which values they do not hold.

    Examples
    --------
    >>> method = "posterior; below rank 37 the prior decides"
    >>> interval = {"low": 0.05, "high": 0.14, "level": 0.95, "target": "test-users"}
    >>> for sentence in posterior_sentences([Estimate("ease", "ndcg@10", 0.1, method=method, **interval)]):
    ...     print(sentence)
    A posterior interval holds the exact value for about 95 % of models like those its prior was learnt from.
    Below rank 37 the prior decides how targets are spread, not the sample.
    """
    own = [e for e in estimates if without_rank(e.method) == "posterior" and e.low is not None]
    if not own:
        return []
    levels = listed_in_words([percent(level, space=" ") for level in sorted({e.level or 0.0 for e in own})])
    holds = listed_in_words(sorted({_HOLDS[e.target] for e in own}))
    like = "models like those its prior was learnt from"
    sentences = [f"A posterior interval holds {holds} for about {levels} of {like}."]
    found = [match[1] for e in own if (match := _RANK.search(e.method))]
    ranks = sorted(set(found), key=lambda rank: int(rank.replace(",", "")))
    if ranks:
        span = f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {ranks[0]} to {ranks[-1]}"
        sentences.append(f"Below {span} the prior decides how targets are spread, not the sample.")
    outside = [e.estimator for e in own if not (e.low or 0.0) <= e.value <= (e.high or 0.0)]
    if outside:
        names = listed_in_words(list(dict.fromkeys(outside)))
        what = "the interval is of the metric among all items, whatever the estimator"
        sentences.append(f"Values of {names} lie outside: {what}.")
    return sentences
