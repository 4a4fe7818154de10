"""Print the tables."""

from __future__ import annotations

from typing import Any

from benchmarks.rivals.entry import ENTRIES

NOTES = {entry.name: entry.note for entry in ENTRIES}
EQUAL = 1e-6
FLOOR = "truerank ranks, values"


def show(table: dict[str, Any]) -> None:
    """Print times and values of one job."""
    print(
        f"\n{table['job']}: {table['users']:,} users x {table['items']:,} items x {table['width']} factors, "
        f"{table['targets']:,} targets, {table['seen']:,} seen"
    )
    rows = {name: row for name, row in table["rows"].items() if "error" not in row}
    if table["timed"]:
        _show_times(rows)
    _show_values(rows)
    for name, row in table["rows"].items():
        if "error" in row:
            print(f"  {name}: {row['error']}")


def _show_times(rows: dict[str, Any]) -> None:
    floor = rows[FLOOR]
    print(f"  {'':30}{'wall s':>9}{'ratio':>8}{'CPU s':>9}{'ratio':>8}{'metric s':>10}{'peak MB':>9}  calls")
    for name, row in rows.items():
        best, metric = row["best"], row["best"].get("metric_wall_s")
        ratio = best["wall_s"] / floor["best"]["wall_s"]
        cpu_ratio = row["least_cpu_s"] / floor["least_cpu_s"]
        print(
            f"  {name:30}{best['wall_s']:9.3f}{ratio:8.1f}{row['least_cpu_s']:9.3f}{cpu_ratio:8.1f}"
            f"{'' if metric is None else f'{metric:.3f}':>10}{row['peak_mb']:9.0f}{row['repeats']:6}"
        )


def _show_values(rows: dict[str, Any]) -> None:
    print(f"  {'':30}{'NDCG@10':>10}{'Recall@10':>11}  against the same definition on exact ranks")
    for name, row in rows.items():
        found = [row["values"][metric]["found"] for metric in ("ndcg", "recall")]
        print(f"  {name:30}{found[0]:10.6f}{found[1]:11.6f}  {verdict(row['values'])}")


def verdict(values: dict[str, dict[str, Any]]) -> str:
    """Say whether the values are those of exact ranks, metric by metric."""
    words = []
    for metric, value in values.items():
        if "spec" not in value:
            words.append(f"{metric}: no such definition")
            continue
        off = value["found"] - value["expected"]
        if abs(off) < EQUAL:
            words.append(f"{value['spec']} equal")
        elif value["worst"] < value["best"]:
            words.append(
                f"{value['spec']} {value['expected']:.6f} in [{value['worst']:.4f}, {value['best']:.4f}]"
            )
        else:
            words.append(f"{value['spec']} off by {off:+.1e}")
    return "; ".join(words)
