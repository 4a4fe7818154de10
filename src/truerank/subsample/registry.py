"""The sub-sampling strategies by name."""

from __future__ import annotations

from truerank.core.registry import Registry
from truerank.core.strategy import Strategy

STRATEGIES: Registry[Strategy] = Registry(
    "strategy",
    {
        "centrality": "truerank.subsample.centrality:Centrality",
        "forest-fire": "truerank.subsample.walk:ForestFire",
        "head-item": "truerank.subsample.unit:HeadItem",
        "head-user": "truerank.subsample.unit:HeadUser",
        "random": "truerank.subsample.interaction:Random",
        "random-item": "truerank.subsample.unit:RandomItem",
        "random-user": "truerank.subsample.unit:RandomUser",
        "random-walk": "truerank.subsample.walk:RandomWalk",
        "stratified": "truerank.subsample.history:Stratified",
        "svp-cf": "truerank.subsample.proxy:SvpCf",
        "svp-cf-prop": "truerank.subsample.proxy:SvpCfProp",
        "temporal": "truerank.subsample.history:Temporal",
    },
    presets={
        "s21-svp-cf-bias": "svp-cf(proxy=bias)",
        "s21-svp-cf-bias-user": "svp-cf(proxy=bias, unit=user)",
        "s21-svp-cf-mf": "svp-cf(proxy=mf)",
        "s21-svp-cf-mf-user": "svp-cf(proxy=mf, unit=user)",
        "s21-svp-cf-prop-bias": "svp-cf-prop(proxy=bias)",
        "s21-svp-cf-prop-bias-user": "svp-cf-prop(proxy=bias, unit=user)",
        "s21-svp-cf-prop-mf": "svp-cf-prop(proxy=mf)",
        "s21-svp-cf-prop-mf-user": "svp-cf-prop(proxy=mf, unit=user)",
    },
)
