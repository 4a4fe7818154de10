"""Who takes part."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """One way to do the job.

    Parameters
    ----------
    name : what the table calls it
    library : names its requirements
    module : the file in ``lineup``
    ndcg, recall : the specs of truerank that have the same definition; None where there is none
    note : what is particular about its values
    """

    name: str
    library: str
    module: str
    ndcg: str = "ndcg@10"
    recall: str | None = "recall@10"
    note: str = ""


ENTRIES = (
    Entry("truerank evaluate", "truerank", "truerank_evaluate", note="with 95 % intervals"),
    Entry("truerank ranks, values", "truerank", "truerank_values"),
    Entry(
        "implicit ranking_metrics_at_k",
        "implicit",
        "implicit_metrics",
        recall=None,
        note="has no recall; shown is its precision, hits of all users / sum of min(targets, K), which is "
        "recall where users have one target",
    ),
    Entry(
        "RecTools ranker, calc_metrics",
        "rectools",
        "rectools_calc",
        ndcg="rectools.ndcg@10",
        note="NDCG divides by the ideal of K targets (divide_by_achievable=False)",
    ),
    Entry("RecBole collector, evaluator", "recbole", "recbole_full_sort"),
    Entry("torch top-k, RePlay builder", "replay", "replay_torch"),
    Entry("NumPy top-k, RePlay offline", "replay", "replay_offline"),
    Entry("NumPy top-k, ranx", "ranx", "ranx_evaluate"),
    Entry(
        "LensKit batch, RunAnalysis",
        "lenskit",
        "lenskit_batch",
        ndcg="lenskit.ndcg@10",
        recall="lenskit.recall@10",
        note="no discount at ranks 1 and 2; recall divides by min(targets, K)",
    ),
)
