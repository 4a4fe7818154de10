"""How long exact ranks take on a GPU, against what one would write in torch.

Rivals, in blocks of users that fill 8 GB of scores: a float32 matrix product and ``topk`` (the 50 best items,
less than a rank), and a float32 matrix product and a count of what is above (no ties, no guarantee). They run
on at most 131,072 users and are scaled to all. Everything is timed in one run with the factors on the GPU
unless said otherwise; ratios are of medians, to the second rival, and for sampled ranks to a float32 gather
of the same negatives in torch. Counts are compared with float64 sums first: those of small
problems made to break a careless kernel, those of random users of the large ones, and those of all users of
the largest (by a float64 product, and the sums that define ranks where that is too close).

Then come hostile items (copies, a long one, an offset, small integers) and limits of the memory, which are
kept, with ratios to Gaussian items and no limit; the limits again with factors from the host, with ratios to
the same without a limit; item-item models and sampled ranks as the public calls give
them, with ratios to the same on the CPU; and what a process takes to start.

    python -m benchmarks.gpu_ranks [--quick] [--tune] [--out FOLDER]

``--tune`` times the shapes of tiles; needs torch, triton and a GPU, but none of the other dependencies.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.machine import folder_name
from truerank.core.interactions import Interactions
from truerank.core.interactions import Lists as CoreLists
from truerank.core.scorer import Factors
from truerank.core.split import Split
from truerank.models.item_item import DenseHistoryScorer, sparse_history_scorer
from truerank.ranking.exact import Queries, exact_ranks
from truerank.ranking.gpu import triton_count as fused
from truerank.ranking.gpu.error_bound import ItemSide
from truerank.ranking.gpu.exact import DeviceCounter, count_on_device
from truerank.ranking.gpu.sampled import DeviceFactors
from truerank.ranking.gpu.triton_count import TileShape
from truerank.ranking.negatives import RowBlock, Rows
from truerank.ranking.sampled import sample_ranks

SIZES = [(6_040, 3_706, 64), (131_072, 1_000_000, 64), (1_000_000, 1_000_000, 64)]
N_SEEN = 165
N_NEGATIVES = 99
RIVAL_USERS = 131_072
LIMITS = (64, 80, 128, 256, 1024)
HOST_LIMITS = (64, 256)
BLOCK_BYTES = 8 << 30
CHECKED_USERS = 96
KINDS = ("gaussian", "integers", "zeros", "last bit", "huge", "tiny", "subnormal", "mixed", "cancelling")

WHOLE_WORK = fused.WHOLE_WORK

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Lists:
    """Targets and seen items of every row."""

    target_indptr: Array
    target_items: Array
    seen_indptr: Array
    seen_items: Array

    @property
    def arguments(self) -> tuple[Array, Array, Array, Array]:
        """What every kernel takes."""
        return self.target_indptr, self.target_items, self.seen_indptr, self.seen_items

    def rows(self, rows: Array) -> Lists:
        """Pick rows."""
        parts = []
        for indptr, items in (
            (self.target_indptr, self.target_items),
            (self.seen_indptr, self.seen_items),
        ):
            lists = [items[indptr[row] : indptr[row + 1]] for row in rows]
            parts += [np.cumsum([0, *map(len, lists)]), np.concatenate(lists)]
        return Lists(*parts)


def one_target(targets: Array, seen: Array | None = None) -> Lists:
    """Return lists of one target per row and sorted seen items of equal number."""
    n = len(targets)
    width = 0 if seen is None else seen.shape[1]
    items = np.zeros(0, np.int32) if seen is None else seen.ravel().astype(np.int32)
    return Lists(np.arange(n + 1), targets, np.arange(n + 1) * width, items)


def counts_by_definition(users: Any, items: Any, bias: Any, lists: Lists) -> Array:
    """Return the four counts by float64 sums, coordinates in ascending order; all scores are stored."""
    scores = torch.zeros((len(users), len(items)), dtype=torch.float64, device=items.device)
    for k in range(users.shape[1]):
        scores += users[:, k, None].double() * items[:, k].double()
    if bias is not None:
        scores += bias.double()
    seen, found = torch.from_numpy(lists.seen_items.astype(np.int64)).to(items.device), []
    is_pool = torch.ones(len(items), dtype=torch.bool, device=items.device)
    targets = torch.from_numpy(lists.target_items.astype(np.int64)).to(items.device)
    for row, mine in enumerate(scores):
        known = seen[lists.seen_indptr[row] : lists.seen_indptr[row + 1]]
        relevant = mine[targets[lists.target_indptr[row] : lists.target_indptr[row + 1]]]
        is_pool[known] = False
        for score in relevant:
            higher, same = mine > score, mine == score
            counted = [(higher & is_pool).sum(), (same & is_pool).sum() - 1]
            found.append(torch.stack([*counted, (relevant > score).sum(), (relevant == score).sum() - 1]))
        is_pool[known] = True
    return torch.stack(found).cpu().numpy().T


def draw_factors(draw: np.random.Generator, shape: tuple[int, int], kind: str, dtype: Any) -> Array:
    """Draw factors that are hard in one way; a third of the rows are copies of others."""
    normal = draw.standard_normal(shape)
    scales = {"huge": 1e30, "tiny": 1e-30, "subnormal": 1e-42 if dtype is np.float32 else 1e-310}
    if kind in scales:
        normal *= scales[kind]
    elif kind == "integers":
        normal = np.rint(normal)
    elif kind == "zeros":
        normal *= draw.random((shape[0], 1)) < 0.5
    elif kind == "mixed":
        normal *= 10.0 ** draw.integers(-12, 12, (shape[0], 1))
    elif kind == "cancelling":  # large products that cancel, so that what a matrix unit drops shows
        normal[:, 1::2] = -normal[:, : 2 * (shape[1] // 2) : 2] * (1 + 1e-6 * normal[:, 1::2])
        normal = np.abs(normal) if draw.random() < 0.5 else normal
    elif kind == "last bit":
        normal = np.repeat(normal[:1], shape[0], axis=0).astype(dtype).astype(float)
    factors: Array = normal.astype(dtype)
    if kind == "last bit":
        rows, columns = np.arange(shape[0]), draw.integers(0, shape[1], shape[0])
        factors[rows, columns] = np.nextafter(factors[rows, columns], dtype(np.inf))
    copies = np.flatnonzero(draw.random(shape[0]) < 0.3)
    factors[copies] = factors[draw.integers(0, shape[0], len(copies))]
    return factors


def hard_problems() -> Iterator[tuple[str, Array, Array, Array | None, Lists]]:
    """Yield small problems: every kind of users against every kind of items, biases, several targets."""
    draw = np.random.default_rng(0)
    cases = [(u, i, 40, t) for u in KINDS for i in KINDS for t in (np.float32, np.float64)]
    cases += [("gaussian", "gaussian", width, np.float32) for width in (1, 16, 64, 100, 128, 130, 320)]
    for user_kind, item_kind, width, dtype in cases:
        n_rows, n_items = 150, 700
        users = draw_factors(draw, (n_rows, width), user_kind, dtype)
        items = draw_factors(draw, (n_items, width), item_kind, dtype)
        bias = draw.standard_normal(n_items).astype(dtype) if draw.random() < 0.3 else None
        targets, seen = [], []
        for _ in range(n_rows):
            order, n_targets = draw.permutation(n_items), int(draw.integers(1, 4))
            targets.append(order[:n_targets])
            seen.append(np.sort(order[n_targets : n_targets + int(draw.integers(0, 60))]))
        lists = Lists(
            np.cumsum([0, *map(len, targets)]),
            np.concatenate(targets),
            np.cumsum([0, *map(len, seen)]),
            np.concatenate(seen),
        )
        yield f"{user_kind} x {item_kind} x {width} {dtype.__name__}", users, items, bias, lists


def check_hard_problems() -> int:
    """Assert that every count of every small problem is that of the definition; return how many counts."""
    n_checked, wrong = 0, []
    for name, users, items, bias, lists in hard_problems():
        few = np.arange(0, len(users), 5)
        expected = counts_by_definition(
            torch.from_numpy(users[few]).cuda(),
            torch.from_numpy(items).cuda(),
            None if bias is None else torch.from_numpy(bias).cuda(),
            lists.rows(few),
        )
        chosen = np.concatenate([np.arange(lists.target_indptr[r], lists.target_indptr[r + 1]) for r in few])
        for fused.WHOLE_WORK in (0, WHOLE_WORK):
            counts = count_on_device(users, items, bias, *lists.arguments)
            found = np.stack([counts.n_above, counts.n_tied, counts.n_relevant_above, counts.n_relevant_tied])
            n_wrong = int((found[:, chosen] != expected).sum())
            if n_wrong:
                wrong.append(f"{name}, {fused.WHOLE_WORK}: {n_wrong} of {expected.size}")
            n_checked += expected.size
    assert not wrong, "\n".join(wrong)
    return n_checked


def draw_problem(n_users: int, n_items: int, width: int) -> tuple[Any, Any, dict[str, Lists]]:
    """Draw Gaussian factors on the GPU, and targets: random, the best of 1000 each, and with seen items."""
    torch.manual_seed(0)
    users, items = (torch.randn((n, width), device="cuda") for n in (n_users, n_items))
    draw = np.random.default_rng(0)
    some = torch.randperm(n_items, device="cuda")[:1000]
    top = (
        torch.cat([some[(part @ items[some].T).argmax(1)] for part in torch.split(users, 1 << 17)])
        .cpu()
        .numpy()
    )
    targets = draw.integers(0, n_items, n_users)
    lists = {"random targets": one_target(targets), "high targets": one_target(top)}
    if n_users * N_SEEN <= 1 << 25:
        step = n_items // N_SEEN
        seen = np.arange(N_SEEN) * step + draw.integers(0, step, (n_users, N_SEEN))
        away = targets.copy()
        is_seen = (seen == targets[:, None]).any(1)
        away[is_seen] = (N_SEEN * step + targets[is_seen] % max(1, n_items - N_SEEN * step)) % n_items
        keep = ~(seen == away[:, None]).any(1)
        away[~keep] = np.array([np.setdiff1d(np.arange(N_SEEN + 1), row)[0] for row in seen[~keep]])
        lists[f"{N_SEEN} seen"] = one_target(away, seen)
    return users, items, lists


def check_random_users(users: Any, items: Any, lists: Lists, counts: Any) -> int:
    """Assert the counts of some users; return how many users."""
    rows = np.random.default_rng(1).choice(len(users), min(CHECKED_USERS, len(users)), replace=False)
    expected = counts_by_definition(users[torch.from_numpy(rows).cuda()], items, None, lists.rows(rows))
    found = np.stack([counts.n_above, counts.n_tied])[:, rows]
    assert (found == expected[:2]).all(), f"{(found != expected[:2]).any(0).sum()} users are wrong"
    return len(rows)


def check_all_users(users: Any, items: Any, lists: Lists, counts: Any) -> int:
    """Assert the counts of all users, of one target each, by float64 products; return how many users."""
    double, longest = items.double(), float(items.double().norm(dim=1).amax())
    targets = torch.from_numpy(lists.target_items).cuda()
    above, tied = (torch.from_numpy(part).cuda() for part in (counts.n_above, counts.n_tied))
    close = []
    for start in range(0, len(users), 1024):
        mine = slice(start, start + 1024)
        x = users[mine].double()
        scores = x @ double.T
        scores -= scores.gather(1, targets[mine, None])
        margin = 1e-12 * longest * x.norm(dim=1, keepdim=True)
        n_near = (scores.abs() <= margin).sum(1)
        is_clear = n_near == 1  # the target alone
        same = ((scores > margin).sum(1) == above[mine]) & (tied[mine] == 0)
        assert bool((same | ~is_clear).all()), f"users from {start} on"
        close.append(start + torch.nonzero(~is_clear)[:, 0])
    rows = torch.cat(close).cpu().numpy()
    for start in range(0, len(rows), CHECKED_USERS):
        some = rows[start : start + CHECKED_USERS]
        expected = counts_by_definition(users[torch.from_numpy(some).cuda()], items, None, lists.rows(some))
        assert (np.stack([counts.n_above, counts.n_tied])[:, some] == expected[:2]).all()
    return len(users)


def hostile_problems(users: Any, items: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield items that leave much undecided, or tie a lot, beside Gaussian ones."""
    yield "Gaussian", users, items
    changed = items.clone()
    changed[torch.randperm(len(items), device="cuda")[: len(items) // 10]] = items[0]
    yield "10 % copies of one item", users, changed
    changed[torch.randperm(len(items), device="cuda")[: len(items) // 2]] = items[0]
    yield "half copies of one item", users, changed
    changed = items.clone()
    changed[7] *= 100
    yield "an item 100 times longer", users, changed
    changed = items.clone()
    changed[:, 0] += 100
    yield "an offset of 100", users, changed
    yield "small integers", (users * 2).round(), (items * 2).round()
    yield "-1, 0, 1", (users * 0.7).round().sign(), (items * 0.7).round().sign()
    changed = items.clone()
    changed[: len(items) // 2] = 0
    yield "half zeros", users, changed


def measure_cliffs(repeats: int) -> dict[str, list[float]]:
    """Time hostile items, checked for some users, and limits of the memory, which change no count."""
    users, items, lists = draw_problem(RIVAL_USERS, 1_000_000, 64)
    plain, rows = lists["random targets"], {}
    for name, some_users, some_items in hostile_problems(users, items):
        counts = count_on_device(some_users, some_items, None, *plain.arguments)
        check_random_users(some_users, some_items, plain, counts)
        rows[name] = milliseconds(
            lambda u=some_users, i=some_items: count_on_device(u, i, None, *plain.arguments),  # type: ignore[misc]
            repeats,
        )
    for name, mine in (("", plain), (f"{N_SEEN} seen items, ", lists[f"{N_SEEN} seen"])):
        usual = count_on_device(users, items, None, *mine.arguments)
        if name:
            rows[f"{N_SEEN} seen items per user"] = milliseconds(
                lambda mine=mine: count_on_device(users, items, None, *mine.arguments),  # type: ignore[misc]
                repeats,
            )
        for mebibytes in LIMITS:
            limited = within(mebibytes << 20, users, items, mine, usual)
            rows[f"{name}{mebibytes} MiB of memory"] = milliseconds(limited, repeats)
    rows.update(measure_host(users.cpu().numpy(), items.cpu().numpy(), lists, repeats))
    many, few_items = torch.randn((3_000_000, 64), device="cuda"), torch.randn((50, 64), device="cuda")
    narrow = one_target(np.random.default_rng(3).integers(0, 50, len(many)))
    for memory in (None, 64 << 30):
        counts = count_on_device(many, few_items, None, *narrow.arguments, memory=memory)
        check_random_users(many, few_items, narrow, counts)
    rows["3,000,000 users x 50 items"] = milliseconds(
        lambda: count_on_device(many, few_items, None, *narrow.arguments), repeats
    )
    return rows


def within(memory: int, users: Any, items: Any, lists: Lists, usual: Any) -> Callable[[], Any]:
    """Return a call that is limited in memory; the limit is kept, and changes no count."""

    def limited() -> Any:
        return count_on_device(users, items, None, *lists.arguments, memory=memory)

    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    few = limited()
    assert torch.cuda.max_memory_allocated() - before <= memory
    assert (few.n_above == usual.n_above).all()
    assert (few.n_tied == usual.n_tied).all()
    return limited


def measure_host(users: Array, items: Array, lists: dict[str, Lists], repeats: int) -> dict[str, list[float]]:
    """Time limits of the memory where factors come from the host."""
    rows = {}
    for name, mine in (("", lists["random targets"]), (f", {N_SEEN} seen items", lists[f"{N_SEEN} seen"])):

        def unlimited(mine: Lists = mine) -> Any:
            return count_on_device(users, items, None, *mine.arguments)

        usual = unlimited()
        rows[f"from the host{name}"] = milliseconds(unlimited, repeats)
        for mebibytes in HOST_LIMITS:
            limited = within(mebibytes << 20, users, items, mine, usual)
            rows[f"from the host{name}, {mebibytes} MiB of memory"] = milliseconds(limited, repeats)
    return rows


def base_of_cliff(name: str) -> str | None:
    """Return the row without a limit that a row is compared with."""
    if name.startswith("from the host"):
        return name.rpartition(", ")[0] if name.endswith("of memory") else name
    if "3,000,000" in name:
        return None
    return f"{N_SEEN} seen items per user" if "seen" in name else "Gaussian"


def draw_split(n_users: int, n_items: int, n_seen: int) -> Split:
    """Draw a split with sorted seen items of equal number and one target per user."""
    draw = np.random.default_rng(5)
    step = n_items // n_seen
    seen = np.arange(n_seen) * step + draw.integers(0, step - 1, (n_users, n_seen))
    number = np.arange(n_users)
    train = Interactions.from_codes(np.repeat(number, n_seen), seen.ravel(), n_users=n_users, n_items=n_items)
    test = Interactions.from_codes(number, seen[:, n_seen // 2] + 1, n_users=n_users, n_items=n_items)
    return Split(train, test)


def measure_calls(repeats: int) -> dict[str, list[float]]:
    """Time public calls on the GPU and on all cores; the tables must be the same."""
    rows: dict[str, list[float]] = {}

    def both(name: str, call: Callable[[str], Any]) -> None:
        here, there = call("cpu"), call("cuda")
        for field in ("n_above", "n_tied", "n_pool"):
            assert (getattr(here, field) == getattr(there, field)).all(), (name, field)
        for _ in range(repeats):  # one after the other, so that both meet the same load
            for device in ("cuda", "cpu"):
                rows.setdefault(f"{name}, {device}", []).extend(
                    milliseconds(lambda device=device: call(device), 1, warm_up=False)  # type: ignore[misc]
                )

    small = draw_split(6_040, 3_706, N_SEEN)
    weights = np.random.default_rng(6).standard_normal((3_706, 3_706))
    dense = DenseHistoryScorer(small.train.by_user(), weights)
    both("item-item, full, 6,040 x 3,706", lambda device: exact_ranks(dense, small, device=device))
    from scipy.sparse import csr_array, random_array

    few = csr_array(random_array((3_706, 3_706), density=0.03, rng=7))
    sparse = sparse_history_scorer(small.train, few)
    both("item-item, sparse, 6,040 x 3,706", lambda device: exact_ranks(sparse, small, device=device))
    split = draw_split(1_000_000, 1_000_000, 20)
    draw = np.random.default_rng(8)
    factors = Factors(*(draw.standard_normal((1_000_000, 64), dtype=np.float32) for _ in range(2)))
    for spec in ("uniform(m=99)", "adaptive(start=100, max=3200)", "popularity(m=99)"):
        both(
            f"{spec}, 1,000,000 x 1,000,000",
            lambda device, spec=spec: sample_ranks(factors, split, spec, device=device).ranks,  # type: ignore[misc]
        )
    return rows


START = """
import time; begin = time.perf_counter()
import numpy as np
from truerank.ranking.gpu.exact import count_on_device
draw = np.random.default_rng(0)
users, items = (draw.standard_normal((n, 64), dtype=np.float32) for n in (20_000, 20_000))
lists = np.arange(20_001), np.arange(20_000), np.zeros(20_001, np.int64), np.zeros(0, np.int32)
loaded = time.perf_counter()
count_on_device(users, items, None, *lists)
print(time.perf_counter() - loaded)
"""


def measure_start(repeats: int) -> dict[str, list[float]]:
    """Time the first count of a new process, torch and the device included, kernels compiled before."""
    times = []
    for _ in range(repeats + 1):
        done = subprocess.run([sys.executable, "-c", START], capture_output=True, text=True, check=True)
        times.append(1e3 * float(done.stdout))
    return {"first count of a process, 20,000 x 20,000": times[1:]}


def summary(rows: dict[str, list[float]], bases: Callable[[str], str | None]) -> dict[str, Any]:
    """Return medians, and ratios to the row that is a row's base."""
    medians = {name: statistics.median(times) for name, times in rows.items()}
    return {
        name: {
            "median_ms": medians[name],
            "min_ms": min(times),
            "max_ms": max(times),
            "repeats": len(times),
            "ratio": medians[name] / medians[bases(name) or name],
        }
        for name, times in rows.items()
    }


def milliseconds(function: Callable[[], object], repeats: int, *, warm_up: bool = True) -> list[float]:
    """Time a function, the GPU idle before and after; one call warms up."""
    if warm_up:
        function()
    times = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        start = time.perf_counter()
        function()
        torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - start))
    return times


def rival(users: Any, items: Any, targets: Any, use: Callable[[Any, Any], Any]) -> None:
    """Score block after block in float32."""
    size = max(1, BLOCK_BYTES // (4 * len(items)))
    for start in range(0, len(users), size):
        use(users[start : start + size] @ items.T, targets[start : start + size])


def above(scores: Any, targets: Any) -> Any:
    """Count what scores higher, in float32."""
    return (scores > scores.gather(1, targets[:, None])).sum(1)


def measure_sampled(users: Any, items: Any, targets: Array, repeats: int) -> dict[str, list[float]]:
    """Time the comparison of targets with listed negatives, drawing not counted."""
    n_users = len(users)
    codes = np.random.default_rng(2).integers(0, len(items), n_users * N_NEGATIVES, dtype=np.int32)
    indptr = np.arange(n_users + 1)
    nothing = CoreLists(np.zeros(n_users + 1, np.int64), np.zeros(0, np.int32))
    number = np.arange(n_users)
    queries = Queries(number, CoreLists(indptr, targets), nothing)
    rows = Rows(queries, None, len(items), number, indptr, False, 0, "sample//0", queries.users)  # type: ignore[arg-type]
    judge = DeviceFactors(Factors(users.cpu().numpy(), items.cpu().numpy()), rows)
    block = RowBlock(0, n_users, indptr * N_NEGATIVES)
    found = judge.compare(block, codes)
    few = range(0, n_users, max(1, n_users // CHECKED_USERS))
    for row in few:
        mine = torch.from_numpy(np.append(codes[row * N_NEGATIVES : (row + 1) * N_NEGATIVES], targets[row]))
        scores = torch.zeros(N_NEGATIVES + 1, dtype=torch.float64)
        for k in range(users.shape[1]):
            scores += float(judge.users[row, k]) * judge.items[mine.cuda().long(), k].double().cpu()
        assert int((scores[:-1] > scores[-1]).sum()) == found.n_above[row]
    on_gpu = torch.from_numpy(codes).cuda().view(n_users, -1).long()
    target = torch.from_numpy(targets).cuda()

    def gather() -> None:
        for part in torch.split(torch.arange(n_users, device="cuda"), 1 << 15):
            scores = torch.einsum("ud,umd->um", users[part], items[on_gpu[part]])
            (scores > (users[part] * items[target[part]]).sum(1, keepdim=True)).sum(1)

    return {
        f"sampled ranks, {n_users} x {N_NEGATIVES}": milliseconds(
            lambda: judge.compare(block, codes), repeats
        ),
        f"torch float32 gather, {n_users} x {N_NEGATIVES}": milliseconds(gather, repeats),
    }


def measure(size: tuple[int, int, int], repeats: int) -> dict[str, Any]:
    """Return the table of one size."""
    users, items, lists = draw_problem(*size)
    rows: dict[str, list[float]] = {}
    recomputed, checked = {}, 0
    counter = DeviceCounter(items)
    for name, mine in lists.items():
        counts = counter.count(users, *mine.arguments)
        is_largest = size == SIZES[-1] and name == "random targets"
        check = check_all_users if is_largest else check_random_users
        checked += check(users, items, mine, counts)
        recomputed[name] = counts.n_recomputed / len(users)
        rows[f"exact ranks, {name}"] = milliseconds(
            lambda mine=mine: count_on_device(users, items, None, *mine.arguments),  # type: ignore[misc]
            repeats,
        )
    host = users.cpu().numpy(), items.cpu().numpy()
    plain = lists["random targets"]
    rows["exact ranks, factors from the host"] = milliseconds(
        lambda: count_on_device(*host, None, *plain.arguments), repeats
    )
    few = users[:RIVAL_USERS]
    rows.update(measure_sampled(few, items, plain.target_items[: len(few)], repeats))
    targets = torch.from_numpy(plain.target_items[: len(few)]).cuda()
    factor = len(users) / len(few)
    for name, use in (("topk(50)", lambda scores, _: scores.topk(min(50, len(items)))), ("count", above)):
        times = milliseconds(lambda use=use: rival(few, items, targets, use), min(repeats, 3))  # type: ignore[misc]
        rows[f"torch float32 product + {name}"] = [factor * value for value in times]
    base = statistics.median(rows["torch float32 product + count"])
    sampled_base = statistics.median(rows[f"torch float32 gather, {len(few)} x {N_NEGATIVES}"])
    return {
        "users": size[0],
        "items": size[1],
        "width": size[2],
        "checked_users": checked,
        "decided_in_float64_per_user": recomputed,
        "rows": {
            name: {
                "median_ms": statistics.median(times),
                "min_ms": min(times),
                "max_ms": max(times),
                "repeats": len(times),
                "ratio": statistics.median(times) / (sampled_base if f" x {N_NEGATIVES}" in name else base),
            }
            for name, times in rows.items()
        },
    }


def show_rows(title: str, rows: dict[str, Any]) -> None:
    """Print rows under a title."""
    print(f"\n{title}\n  {'':44}{'median ms':>11}{'least':>10}{'largest':>10}{'ratio':>8}")
    for name, row in rows.items():
        print(
            f"  {name:44}{row['median_ms']:11.2f}{row['min_ms']:10.2f}{row['max_ms']:10.2f}"
            f"{row['ratio']:8.2f}",
            flush=True,
        )


def show(table: dict[str, Any]) -> None:
    """Print the table of one size."""
    print(f"\n{table['users']:,} users x {table['items']:,} items x {table['width']} factors")
    print(f"{table['checked_users']} users equal float64; decided in float64 per user: ", end="")
    print(", ".join(f"{name} {value:.1f}" for name, value in table["decided_in_float64_per_user"].items()))
    print(f"  {'':38}{'median ms':>11}{'least':>10}{'largest':>10}{'ratio':>8}")
    for name, row in table["rows"].items():
        print(
            f"  {name:38}{row['median_ms']:11.2f}{row['min_ms']:10.2f}{row['max_ms']:10.2f}"
            f"{row['ratio']:8.3f}",
            flush=True,
        )


def tune() -> None:
    """Time the shapes of tiles on 65,536 users x 1,000,000 items x 64."""
    users, items, lists = draw_problem(65_536, 1_000_000, 64)
    item = ItemSide.prepare(items, None, float(items.abs().amax()), fused.ROWS)
    user = torch.arange(len(users), device="cuda")
    for name, mine in lists.items():
        targets = torch.from_numpy(mine.target_items).cuda()
        score = fused.score_pairs(users, items, None, user, targets)
        rows = fused.prepare_rows(users, user, score, item)
        for shape in (
            TileShape(128, 128, 64, 4, 2),
            TileShape(128, 128, 64, 8, 2),
            TileShape(128, 128, 64, 8, 3),
            TileShape(128, 256, 64, 8, 2),
            TileShape(256, 128, 64, 8, 2),
            TileShape(64, 256, 64, 4, 2),
            TileShape(64, 128, 64, 4, 3),
            TileShape(128, 64, 64, 4, 3),
        ):
            out = torch.zeros((2, len(users)), dtype=torch.int64, device="cuda")
            try:
                times = milliseconds(lambda: fused.count_rows(rows, item, out[0], out[1], shape), 3)  # noqa: B023
            except Exception as error:
                print(f"{name} {shape}: {type(error).__name__} {str(error)[:200]}", flush=True)
                continue
            print(f"{name} {shape}: {min(times):.2f} ms", flush=True)


def main() -> None:
    """Check, measure, print and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the first size only, nothing is written")
    parser.add_argument("--tune", action="store_true", help="time the shapes of tiles, nothing is written")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, help="where to write; benchmarks/results/GPU unless given")
    options = parser.parse_args()
    name = torch.cuda.get_device_name()
    print(f"{name}; {check_hard_problems()} counts of small problems equal float64", flush=True)
    if options.tune:
        tune()
        return
    tables = []
    for size in SIZES[:1] if options.quick else SIZES:
        tables.append(measure(size, 4 * options.repeats if size is SIZES[0] else options.repeats))
        show(tables[-1])
        torch.cuda.empty_cache()
    if options.quick:
        return
    more = {}
    for key, title, rows, bases in (
        (
            "cliffs",
            "131,072 users x 1,000,000 items x 64 factors; ratios to Gaussian items without a limit",
            measure_cliffs,
            base_of_cliff,
        ),
        (
            "calls",
            "public calls from the host's memory and back; ratios to the same on all cores of the CPU",
            measure_calls,
            lambda name: name.replace(", cuda", ", cpu"),
        ),
        ("start", "a new process", measure_start, lambda name: None),
    ):
        more[key] = summary(rows(options.repeats), bases)
        show_rows(title, more[key])
        torch.cuda.empty_cache()
    versions = {"torch": torch.__version__, "numpy": np.__version__, "triton": version("triton")}
    result = {
        "benchmark": "gpu_ranks",
        "machine": {"gpu": name, "python": platform.python_version(), "versions": versions},
        "sizes": tables,
        **more,
    }
    slug = folder_name(name)
    folder = options.out or Path(__file__).parent / "results" / slug
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "gpu_ranks.json").write_text(json.dumps(result, indent=2) + "\n")
    print("\nwritten to gpu_ranks.json")


if __name__ == "__main__":
    main()
