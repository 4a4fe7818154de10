"""The register tile: score some users (``LANES``) against a few items (``ITEMS``) and count.

Users lie side by side in a vector, items are broadcast one coordinate at a time, so the item matrix is read
as it is, and thresholds and counters are vectors as well. The code is vector IR that any target can lower;
only the numbers of users and items per tile are chosen for the host, by its registers.

Comparisons are of 16-bit words: a word is a monotone function of the score, so that words that differ
decide as the scores do. Where some word lies within the words of a target's bracket, ``count_open`` compares
the scores themselves with that target. Counting lags one tile behind: `score_tile` compares the words of the
tile before while it multiplies, because many processors have units that only one of the two uses.

A word is compared by one subtraction, threshold minus word: the sign says whether the word is above, and the
largest difference, read as an unsigned number, how close any word above comes. Signs are collected as bits,
one per item, and counted together at the end of the tile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from truerank.ranking.cpu.vectors import (
    AT_ONCE,
    FLAGS,
    FLOAT,
    FLOATS,
    HAS_BITS,
    I1,
    I16,
    I32,
    I64,
    INTS,
    ITEMS,
    LANES,
    MASK,
    UNROLL,
    WORDS,
    as_words,
    broadcast,
    call_llvm,
    fence,
    integer,
    is_any,
    load_vector,
    multiply_add,
    pointer_to,
    repeat_while,
    vector_of,
)


def _typed_score(
    typing_context: Any,
    users: Any,
    items: Any,
    item_stride: Any,
    width: Any,
    pool: Any,
    scale: Any,
    scores: Any,
    words: Any,
    words_before: Any,
    n_thresholds: Any,
    may_stop: Any,
    word_low: Any,
    word_limit: Any,
    counts: Any,
) -> Any:
    """Score one tile and count the words of another; all arguments are int64, those of arrays are addresses.

    Parameters
    ----------
    users : float32 [width][LANES], width a multiple of UNROLL
    items : float32, ITEMS rows that lie item_stride floats apart; what is read beyond a row's end must be
        finite and meets zeros in ``users``
    pool : one bit per user, [ITEMS], bit u set when the item competes for user u
    scale : float32 [2][LANES], factor and summand that turn a score into its word (see ``word_of``)
    scores, words : float32 and int16 [ITEMS][LANES], written; the lowest word where the item does not compete
    words_before, ... : see ``count_words``

    Returns
    -------
    int64, as of ``count_words``
    """
    return types.int64(*[types.int64] * 14), _emit_score


def _typed_words(
    typing_context: Any,
    words: Any,
    n_thresholds: Any,
    may_stop: Any,
    word_low: Any,
    word_limit: Any,
    counts: Any,
) -> Any:
    """Count the words of one tile; all arguments are int64, those of arrays are addresses.

    Parameters
    ----------
    words : int16 [ITEMS][LANES]
    may_stop : 1 where word_low ascends in its first axis, so that nothing is above the thresholds that follow
        one without a word above it; else 0
    word_low : int16 [n_thresholds][LANES]
    word_limit : uint16 [n_thresholds][LANES], 2^16 - 1 - w, where w is how many words above word_low decide
        nothing, at most 2^15
    counts : int16 [n_thresholds][LANES], to which the words above word_low are added

    Returns
    -------
    int64, bit t set when some word is above word_low of threshold t and decides nothing
    """
    return types.int64(*[types.int64] * 6), _emit_words


def _typed_open(
    typing_context: Any,
    words: Any,
    open_targets: Any,
    word_low: Any,
    word_limit: Any,
    counts: Any,
    scores: Any,
    pool: Any,
    low: Any,
    high: Any,
    spread: Any,
    weight: Any,
    copy: Any,
    target_copy: Any,
    are_ties: Any,
    n_above: Any,
    n_tied: Any,
    near: Any,
) -> Any:
    """Take back what ``count_words`` counted for targets that words do not decide; count their scores.

    Parameters
    ----------
    words, word_low, word_limit, counts : as given to ``count_words``, one threshold per target
    open_targets : what it returned
    scores, pool : of the same tile, see ``score_tile``
    low, high : float32 [n_targets][LANES]
    spread, weight : float32 [LANES] and [ITEMS]; a score above high + spread weight is above the target, one
        below low - spread weight is not, one between them is near
    copy, target_copy : int32 [ITEMS] and [n_targets][LANES]; a near item ties where the two are equal
    are_ties : 0, or -1 where every near item ties
    n_above, n_tied : int32 [n_targets][LANES], added to
    near : one bit per user, [n_targets][ITEMS], written for the targets whose bit is set in the result: near
        items that were not counted as ties

    Returns
    -------
    int64, bit t set when some score is near target t
    """
    return types.int64(*[types.int64] * 17), _emit_open


def _typed_word(typing_context: Any, score: Any, factor: Any, summand: Any) -> Any:
    """Return factor score + summand, float32, rounded as often as in the tile; its whole part is the word."""
    return types.float32(types.float32, types.float32, types.float32), _emit_word


def _typed_prefetch(typing_context: Any, address: Any) -> Any:
    """Ask for the cache line at an address, which need not be valid."""
    return types.void(types.int64), _emit_prefetch


score_tile: Any = intrinsic(_typed_score)
count_words: Any = intrinsic(_typed_words)
count_open: Any = intrinsic(_typed_open)
word_of: Any = intrinsic(_typed_word)
prefetch: Any = intrinsic(_typed_prefetch)


def _emit_score(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    b = builder
    users, items, stride, width, pool, scale, scores, words = args[:8]
    n_thresholds, may_stop = args[9:11]
    users, scale, scores = (pointer_to(b, address, FLOAT) for address in (users, scale, scores))
    multiply = _Products(b, users, pointer_to(b, items, FLOAT), stride)
    compare = _Comparison(b, args[8], *args[11:])

    def has_coordinates(state: list[Any]) -> Any:
        return b.icmp_signed("<", state[0], width)

    def has_both(state: list[Any]) -> Any:
        return b.and_(has_coordinates(state), b.icmp_signed("<", state[1], n_thresholds))

    def both(state: list[Any]) -> list[Any]:
        k, t, flags, *sums = state
        compared = compare.start(t)
        for step in range(UNROLL):
            sums = multiply.add(b.add(k, integer(step)), sums)
            part = range(ITEMS * step // UNROLL, ITEMS * (step + 1) // UNROLL)
            *sums, low, above, closest = fence(b, [*sums, *compare.add(compared, part)])
            compared = low, above, closest
        return [b.add(k, integer(UNROLL)), b.add(t, integer(1)), compare.finish(t, compared, flags), *sums]

    def coordinates(state: list[Any]) -> list[Any]:
        k, t, flags, *sums = state
        for step in range(UNROLL):
            sums = multiply.add(b.add(k, integer(step)), sums)
            sums = fence(b, sums)
        return [b.add(k, integer(UNROLL)), t, flags, *sums]

    state = [integer(0), integer(0), integer(0), *[vector_of(FLOATS, 0.0)] * ITEMS]
    state = repeat_while(b, "both", state, has_both, both)
    _, t, flags, *sums = repeat_while(b, "coordinates", state, has_coordinates, coordinates)
    _write_words(b, sums, scale, pool, scores, pointer_to(b, words, I16))
    return _rest(b, compare, t, n_thresholds, may_stop, flags)


def _emit_words(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    words, n_thresholds, may_stop = args[:3]
    compare = _Comparison(builder, words, *args[3:])
    return _rest(builder, compare, integer(0), n_thresholds, may_stop, integer(0))


def _emit_open(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    b = builder
    words, open_targets, *thresholds = args[:5]
    scores, pool, low, high, spread, weight, copy, target_copy, are_ties, n_above, n_tied, near = args[5:]
    compare = _Comparison(b, words, *thresholds)
    scores, low, high, spread, weight = (
        pointer_to(b, address, FLOAT) for address in (scores, low, high, spread, weight)
    )
    copy, target_copy, n_above, n_tied = (
        pointer_to(b, address, I32) for address in (copy, target_copy, n_above, n_tied)
    )
    near, pool = pointer_to(b, near, MASK), pointer_to(b, pool, MASK)
    all_tie = b.bitcast(b.trunc(are_ties, MASK), FLAGS)

    def one(state: list[Any]) -> list[Any]:
        left, flags = state
        t = b.cttz(left, ir.Constant(I1, 1))
        compare.store(t, compare.add(compare.start(t), range(ITEMS)), b.sub)
        flag = _count_scores(
            b, t, scores, pool, low, high, spread, weight, copy, target_copy, all_tie, n_above, n_tied, near
        )
        return [b.and_(left, b.sub(left, integer(1))), b.or_(flags, flag)]

    def has_targets(state: list[Any]) -> Any:
        return b.icmp_signed("!=", state[0], integer(0))

    return repeat_while(b, "open", [open_targets, integer(0)], has_targets, one)[1]


def _emit_word(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return multiply_add(builder, *args)


def _emit_prefetch(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    byte = ir.IntType(8)
    kind = ir.FunctionType(ir.VoidType(), [byte.as_pointer(), I32, I32, I32])
    function = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
        builder.module, kind, "llvm.prefetch.p0"
    )
    to_read, keep, data = (ir.Constant(I32, value) for value in (0, 3, 1))
    builder.call(function, [pointer_to(builder, args[0], byte), to_read, keep, data])
    return context.get_dummy_value()


class _Products:
    """Dot products, one vector over users per item, summed in the order of the coordinates."""

    def __init__(self, b: Any, users: Any, items: Any, stride: Any) -> None:
        self.b, self.users, self.rows = b, users, [items]
        for _ in range(ITEMS - 1):
            self.rows.append(b.gep(self.rows[-1], [stride]))

    def add(self, k: Any, sums: list[Any]) -> list[Any]:
        """Return the sums with the products of coordinate k."""
        b, sums = self.b, [*sums]
        user = load_vector(b, self.users, b.mul(k, integer(LANES)), FLOATS)
        for item, row in enumerate(self.rows):
            if item and item % AT_ONCE == 0:
                sums = fence(b, sums)
            sums[item] = multiply_add(b, user, broadcast(b, row, k), sums[item])
        return sums


class _Comparison:
    """Words of a tile that are above a threshold: how many, and whether some are too close to decide."""

    def __init__(self, b: Any, words: Any, low: Any, limit: Any, counts: Any) -> None:
        self.b = b
        self.words, self.low, self.limit, self.counts = (
            pointer_to(b, address, I16) for address in (words, low, limit, counts)
        )

    def start(self, t: Any) -> tuple[Any, ...]:
        """Return threshold t, and no words above it yet."""
        return self._load(self.low, t), vector_of(WORDS, 0), vector_of(WORDS, 0)

    def add(self, compared: tuple[Any, ...], items: range) -> tuple[Any, ...]:
        """Compare some items."""
        b = self.b
        low, above, closest = compared
        for item in items:
            word = load_vector(b, self.words, integer(item * LANES), WORDS, 2)
            difference = call_llvm(b, "ssub.sat", low, word)
            closest = call_llvm(b, "umax", closest, difference)
            if HAS_BITS:
                above = call_llvm(b, "fshl", above, difference, vector_of(WORDS, 1))
            else:
                above = b.sub(above, b.ashr(difference, vector_of(WORDS, 15)))
        return low, above, closest

    def finish(self, t: Any, compared: tuple[Any, ...], flags: Any) -> Any:
        """Store the counts; return the flags with bit t set when a word is too close."""
        b = self.b
        self.store(t, compared, b.add)
        is_close = is_any(b, b.icmp_unsigned(">", compared[2], self._load(self.limit, t)))
        return b.or_(flags, b.shl(b.zext(is_close, I64), t))

    def store(self, t: Any, compared: tuple[Any, ...], operation: Callable[[Any, Any], Any]) -> None:
        """Add the words above threshold t to its counts, or take them back."""
        b, above = self.b, compared[1]
        number = call_llvm(b, "ctpop", above) if HAS_BITS else above
        counts = b.bitcast(b.gep(self.counts, [b.mul(t, integer(LANES))]), WORDS.as_pointer())
        b.store(operation(b.load(counts, align=2), number), counts, align=2)

    def _load(self, pointer: Any, t: Any) -> Any:
        return load_vector(self.b, pointer, self.b.mul(t, integer(LANES)), WORDS, 2)


def _rest(b: Any, compare: _Comparison, t: Any, n_thresholds: Any, may_stop: Any, flags: Any) -> Any:
    """Compare with the thresholds from t on; return the flags."""
    goes_on = b.icmp_signed("==", may_stop, integer(0))

    def has_thresholds(state: list[Any]) -> Any:
        return b.icmp_signed("<", state[0], n_thresholds)

    def one(state: list[Any]) -> list[Any]:
        t, flags = state
        compared = compare.add(compare.start(t), range(ITEMS))
        is_reached = is_any(b, b.icmp_signed("!=", compared[1], vector_of(WORDS, 0)))
        flags = compare.finish(t, compared, flags)
        return [b.select(b.or_(goes_on, is_reached), b.add(t, integer(1)), n_thresholds), flags]

    return repeat_while(b, "thresholds", [t, flags], has_thresholds, one)[1]


def _write_words(b: Any, sums: list[Any], scale: Any, pool: Any, scores: Any, words: Any) -> None:
    """Store the scores and their words, saturated; the lowest word where an item does not compete."""
    factor, summand = (load_vector(b, scale, integer(part * LANES), FLOATS) for part in range(2))
    values = []
    for item, score in enumerate(sums):
        b.store(score, b.bitcast(b.gep(scores, [integer(item * LANES)]), FLOATS.as_pointer()), align=4)
        values.append(as_words(b, b.fptosi(multiply_add(b, score, factor, summand), INTS)))
    for item, value in enumerate(_without_excluded(b, pointer_to(b, pool, MASK), values)):
        b.store(value, b.bitcast(b.gep(words, [integer(item * LANES)]), WORDS.as_pointer()), align=2)


def _without_excluded(b: Any, pool: Any, values: list[Any]) -> list[Any]:
    """Scores or words with the lowest value where the item does not compete; skipped when all compete."""
    kind = values[0].type
    lowest = vector_of(kind, float("-inf") if kind == FLOATS else -0x8000)
    masks = [b.load(b.gep(pool, [integer(item)])) for item in range(ITEMS)]
    everyone = masks[0]
    for mask in masks[1:]:
        everyone = b.and_(everyone, mask)
    before = b.block
    some, after = b.append_basic_block("exclude"), b.append_basic_block("pool")
    b.cbranch(b.icmp_unsigned("==", everyone, ir.Constant(MASK, -1)), after, some)
    b.position_at_end(some)
    kept = [b.select(b.bitcast(m, FLAGS), v, lowest) for m, v in zip(masks, values, strict=True)]
    b.branch(after)
    b.position_at_end(after)
    merged = [b.phi(kind) for _ in values]
    for phi, value, keep in zip(merged, values, kept, strict=True):
        phi.add_incoming(value, before)
        phi.add_incoming(keep, some)
    return merged


def _count_scores(
    b: Any,
    t: Any,
    scores: Any,
    pool: Any,
    low: Any,
    high: Any,
    spread: Any,
    weight: Any,
    copy: Any,
    target_copy: Any,
    all_tie: Any,
    n_above: Any,
    n_tied: Any,
    near: Any,
) -> Any:
    """Compare the scores with target t; return its bit when some score is near and no tie, else 0."""
    values = [load_vector(b, scores, integer(item * LANES), FLOATS) for item in range(ITEMS)]
    values = _without_excluded(b, pool, values)
    at = b.mul(t, integer(LANES))
    lows, highs, spreads = (
        load_vector(b, pointer, offset, FLOATS)
        for pointer, offset in ((low, at), (high, at), (spread, integer(0)))
    )
    n_higher = vector_of(INTS, 0)
    between, some = [], vector_of(FLAGS, 0)
    for item, value in enumerate(values):
        margin = b.fmul(spreads, broadcast(b, weight, integer(item)))
        higher = b.fcmp_ordered(">", value, b.fadd(highs, margin))
        n_higher = b.sub(n_higher, b.sext(higher, INTS))
        between.append(b.xor(higher, b.fcmp_unordered(">=", value, b.fsub(lows, margin))))
        some = b.or_(some, between[-1])
    _add_to(b, n_above, at, n_higher)
    before, close, after = b.block, b.append_basic_block("near"), b.append_basic_block("counted")
    b.cbranch(is_any(b, some), close, after)

    b.position_at_end(close)
    mine = load_vector(b, target_copy, at, INTS)
    row, n_ties, left = b.mul(t, integer(ITEMS)), vector_of(INTS, 0), vector_of(FLAGS, 0)
    for item, flags in enumerate(between):
        is_copy = b.or_(all_tie, b.icmp_signed("==", broadcast(b, copy, integer(item)), mine))
        n_ties = b.sub(n_ties, b.sext(b.and_(flags, is_copy), INTS))
        others = b.and_(flags, b.not_(is_copy))
        left = b.or_(left, others)
        b.store(b.bitcast(others, MASK), b.gep(near, [b.add(row, integer(item))]))
    _add_to(b, n_tied, at, n_ties)
    bit = b.shl(b.zext(is_any(b, left), I64), t)
    b.branch(after)

    b.position_at_end(after)
    result = b.phi(I64)
    result.add_incoming(integer(0), before)
    result.add_incoming(bit, close)
    return result


def _add_to(b: Any, counters: Any, at: Any, numbers: Any) -> None:
    counter = b.bitcast(b.gep(counters, [at]), INTS.as_pointer())
    b.store(b.add(b.load(counter, align=4), numbers), counter, align=4)
