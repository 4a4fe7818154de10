"""What each library has and has not, looked up in the source that is installed.

A cell names a function, class or option and the file that must contain it; where the table says no, the row's
pattern occurs nowhere in the library's source (case is ignored; compiled files are searched too). A claim
that does not hold is an error. The table goes into docs/comparison.md.

    python -m benchmarks.rivals.features [--environments FOLDER]
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.rivals.environment import Environments, default_folder
from benchmarks.rivals.page import markdown, put

#: library, as the table writes it, and the folder of its source
LIBRARIES = {
    "recbole": ("RecBole", "recbole"),
    "replay": ("RePlay", "replay"),
    "lenskit": ("LensKit", "lenskit"),
    "rectools": ("RecTools", "rectools"),
    "ranx": ("ranx", "ranx"),
    "implicit": ("implicit", "implicit"),
}
SUFFIXES = {".py", ".pyx", ".pyi", ".so"}


@dataclass(frozen=True)
class Feature:
    """One row.

    Parameters
    ----------
    name : what is asked for
    here : how truerank does it; empty where it does not
    pattern : what is searched where a cell is empty
    found : library -> (what the cell says, what must be in the file, the file)
    """

    name: str
    here: str
    pattern: str
    found: Mapping[str, tuple[str, str, str]] = field(default_factory=dict)


FEATURES = (
    Feature(
        "ranks the whole catalogue",
        "`evaluate`",
        "",
        {
            "recbole": (
                "mode `full`",
                "class FullSortEvalDataLoader",
                "data/dataloader/general_dataloader.py",
            ),
            "replay": ("its models; else bring lists", "class OfflineMetrics", "metrics/offline_metrics.py"),
            "lenskit": ("`batch.recommend`", "def recommend", "batch/__init__.py"),
            "rectools": ("`ImplicitRanker`", "class ImplicitRanker", "models/rank/rank_implicit.py"),
            "ranx": ("bring lists", "def evaluate", "meta/evaluate.py"),
            "implicit": ("`ranking_metrics_at_k`", "ranking_metrics_at_k", "evaluation.so"),
        },
    ),
    Feature(
        "several targets per user",
        "yes",
        "",
        {
            "recbole": ("yes", "pos_len_list", "evaluator/collector.py"),
            "replay": ("yes", "ground_truth_len", "metrics/ndcg.py"),
            "lenskit": ("yes", "len(test)", "metrics/ranking/_dcg.py"),
            "rectools": ("yes", "divide_by_achievable", "metrics/ranking.py"),
            "ranx": ("yes, graded too", "rel_lvl", "metrics/ndcg.py"),
            "implicit": ("yes", "ranking_metrics_at_k", "evaluation.so"),
        },
    ),
    Feature(
        "equal scores",
        "mean over all orders, best, worst or random",
        r"\bties\b|\btied\b|tie.?break|average_rank",
        {
            "recbole": ("averaged in `gauc` only", "def _average_rank", "evaluator/collector.py"),
            "replay": ("by item, lists made with Spark", "tie-breaking", "utils/spark_utils.py"),
        },
    ),
    Feature(
        "ranks among sampled negatives",
        "`--sampler`",
        r"NegSampleEval|sampled metric|sampled evaluation|\buni100\b",
        {
            "recbole": (
                "`uni100`, `pop100`",
                "class NegSampleEvalDataLoader",
                "data/dataloader/general_dataloader.py",
            ),
            "replay": (
                "`SampleItems`, deprecated",
                "class SampleItems",
                "models/nn/sequential/postprocessors/postprocessors.py",
            ),
        },
    ),
    Feature(
        "corrects sampled metrics",
        "rank-estimate, CLS, BV, MN, MLE, MES, mapping",
        r"krichene|rank.estimate|corrected metric|sampled metrics? correct|nonparametric maximum",
    ),
    Feature(
        "grows samples where it matters",
        "`adaptive`",
        r"adaptive.{0,20}(negative|sampl)|successive halving of|sequential stopping",
    ),
    Feature(
        "all values that a sample allows",
        "`--bounds`",
        r"partial(ly)?.identif|identification (bound|region)|dvoretzky|\bmanski\b",
    ),
    Feature(
        "intervals",
        "over users (BCa), of sampling, with bias",
        r"confidence.?interval|bootstrap|jackknife",
        {
            "replay": ("normal, over users", "class ConfidenceInterval", "metrics/descriptors.py"),
            "lenskit": ("standard deviation", '"std"', "metrics/bulk.py"),
            "ranx": ("standard deviation", "return_std", "meta/evaluate.py"),
        },
    ),
    Feature(
        "tests of differences",
        "`compare`: paired, families, bounds",
        r"wilcoxon|ttest_rel|student_t|fisher_random|tukey|permutation_test",
        {"ranx": ("Student, Fisher, Tukey", "def compare", "meta/compare.py")},
    ),
    Feature(
        "says how many negatives or users are enough",
        "`plan`, `--precision`",
        r"statistical power|power analysis|required sample|sample size (for|need)",
    ),
    Feature(
        "whether sub-samples keep the order of models",
        "`subsample`, `agreement`",
        r"kendall|rank correlation|order of (models|algorithms)",
    ),
    Feature(
        "evaluates on a GPU",
        "`--engine gpu`",
        r"cuda|use_gpu",
        {
            "recbole": ("yes", "torch.device", "config/configurator.py"),
            "replay": ("`TorchMetricsBuilder`", "predictions.device", "metrics/torch_metrics_builder.py"),
            "lenskit": ("trains some models on it", "device", "training.py"),
            "rectools": ("`use_gpu`, `TorchRanker`", "use_gpu", "models/rank/rank_implicit.py"),
            "implicit": (
                "`implicit.gpu`",
                "class MatrixFactorizationBase",
                "gpu/matrix_factorization_base.py",
            ),
        },
    ),
    Feature(
        "evaluates on a cluster",
        "Dask, Spark",
        r"pyspark|torch\.distributed|\bimport ray\b|dask",
        {
            "recbole": ("`torch.distributed`", "torch.distributed.all_gather", "trainer/trainer.py"),
            "replay": ("Spark", "SparkDataFrame", "metrics/base_metric.py"),
            "lenskit": ("Ray", "class RayOpInvoker", "parallel/ray.py"),
        },
    ),
    Feature(
        "coverage, novelty, diversity",
        "",
        r"novelty|intra.?list|serendipity|gini",
        {
            "recbole": ("five metrics", "class GiniIndex", "evaluator/metrics.py"),
            "replay": ("five metrics", "class Surprisal", "metrics/surprisal.py"),
            "lenskit": ("Gini, popularity", "class ExposureGini", "metrics/ranking/_gini.py"),
            "rectools": ("diversity, serendipity, …", "class Serendipity", "metrics/serendipity.py"),
        },
    ),
    Feature(
        "graded relevance",
        "`--gain`, exact over ties",
        r"graded|dcg_burges",
        {
            "lenskit": ("`NDCG(gain=)`", "_graded_dcg", "metrics/ranking/_dcg.py"),
            "ranx": ("yes", "dcg_burges", "metrics/__init__.py"),
        },
    ),
    Feature(
        "tunes hyper-parameters",
        "",
        r"hyper.?opt|optuna|class \w*Tun(er|ing)",
        {
            "recbole": ("`HyperTuning`", "class HyperTuning", "trainer/hyper_tuning.py"),
            "replay": ("optuna", "optuna", "models/optimization/optuna_objective.py"),
            "lenskit": ("`lenskit tune`", "tune", "cli/tune.py"),
            "ranx": ("of fusions", "def optimize_fusion", "meta/optimize_fusion.py"),
        },
    ),
    Feature(
        "fuses ranked lists",
        "",
        r"reciprocal.rank.fusion|comb_?mnz|bordafuse",
        {"ranx": ("25 methods", "def rrf", "fusion/rrf.py")},
    ),
    Feature(
        "models to train",
        "11",
        "",
        {
            "recbole": ("94 files of models", "class LightGCN", "model/general_recommender/lightgcn.py"),
            "replay": ("classic, bandits, transformers", "class SasRec", "nn/sequential/sasrec/model.py"),
            "lenskit": ("k-NN, ALS, FlexMF, …", "class FlexMFImplicitScorer", "flexmf/_implicit.py"),
            "rectools": (
                "ALS, EASE, transformers, …",
                "class SASRecModel",
                "models/nn/transformers/sasrec.py",
            ),
            "ranx": ("none", "def evaluate", "meta/evaluate.py"),
            "implicit": ("ALS, BPR, LMF, k-NN", "class AlternatingLeastSquares", "cpu/als.py"),
        },
    ),
    Feature(
        "serves (nearest-neighbour index, export)",
        "",
        r"\bannoy\b|nmslib|hnsw|onnx|openvino",
        {
            "replay": (
                "ANN, ONNX, OpenVINO",
                "openvino",
                "models/nn/sequential/compiled/base_compiled_model.py",
            ),
            "rectools": ("ANN", "nmslib", "tools/ann.py"),
            "implicit": ("ANN", "faiss", "ann/faiss.py"),
        },
    ),
)


def cells(environments: Environments, feature: Feature) -> Iterator[str]:
    """Yield what the row says about each library, after looking it up."""
    for library, (title, folder) in LIBRARIES.items():
        [home] = (environments.folder / library).glob(f"lib/python*/site-packages/{folder}")
        if library in feature.found:
            says, needle, path = feature.found[library]
            file = home / path
            if not file.exists() or needle.encode() not in file.read_bytes():
                sys.exit(f"{feature.name}: {title} has no {needle!r} in {path}.")
            yield says
        else:
            for path, line in hits(home, feature.pattern):
                sys.exit(f"{feature.name}: not said of {title}, but {path} has {line!r}.")
            yield "no"


def hits(home: Path, pattern: str) -> Iterator[tuple[str, str]]:
    """Yield files and text that match."""
    wanted = re.compile(pattern.encode(), re.IGNORECASE)
    for file in sorted(each for each in home.rglob("*") if each.suffix in SUFFIXES):
        for found in wanted.finditer(file.read_bytes()):
            yield str(file.relative_to(home)), found[0][:80].decode(errors="replace")


def main() -> None:
    """Look everything up and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--environments", type=Path, default=default_folder())
    environments = Environments(parser.parse_args().environments.resolve())
    for library in LIBRARIES:
        environments.python(library)
    heads = ["", "truerank", *(title for title, _ in LIBRARIES.values())]
    rows = [[feature.name, feature.here or "no", *cells(environments, feature)] for feature in FEATURES]
    put("features", markdown(heads, rows))
    print("\n".join(markdown(heads, rows)))


if __name__ == "__main__":
    main()
