"""Composer: models and a split in, metrics with intervals out."""

from truerank.evaluation.digest import data_hash
from truerank.evaluation.fitting import check_targets, described, fit_scorer
from truerank.evaluation.naming import name_models
from truerank.evaluation.options import DEFAULT_METRICS, Options, make_options
from truerank.evaluation.summary import summarise
from truerank.evaluation.trec import evaluate_trec
from truerank.evaluation.whole_line import Evaluated, assemble, evaluate, evaluate_each, take_users

__all__ = [
    "DEFAULT_METRICS",
    "Evaluated",
    "Options",
    "assemble",
    "check_targets",
    "data_hash",
    "described",
    "evaluate",
    "evaluate_each",
    "evaluate_trec",
    "fit_scorer",
    "make_options",
    "name_models",
    "summarise",
    "take_users",
]
