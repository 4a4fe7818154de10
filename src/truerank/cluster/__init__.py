"""Composer: an evaluation cut into tasks that any engine can run."""

from truerank.cluster.anywhere import evaluate
from truerank.cluster.bootstrap import resampled_means
from truerank.cluster.each import run_each
from truerank.cluster.evaluation import evaluate_files, evaluate_on, evaluate_split
from truerank.cluster.files import Files
from truerank.cluster.sub_sampling import SampledFiles, subsample_files

__all__ = [
    "Files",
    "SampledFiles",
    "evaluate",
    "evaluate_files",
    "evaluate_on",
    "evaluate_split",
    "resampled_means",
    "run_each",
    "subsample_files",
]
