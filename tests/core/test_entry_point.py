"""Plug-ins of other packages: found by entry points, imported when used, and refused with a sentence."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from truerank import METRICS, MODELS
from truerank.core.errors import BrokenPlugin, DataWarning, UnknownName
from truerank.metrics.registry import make_metrics

GOOD = """
from dataclasses import dataclass
import truerank

@dataclass(frozen=True)
class First(truerank.GainMetric):
    '''One for the first rank.'''
    base: float = 2.0
    key = "first-rank"
    def gain_at(self, rank, n_relevant_above):
        return rank == 1
"""
Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Put a package with one module and entry points on the path, as pip would."""

    def add(package: str, module: str, source: str, entries: str, group: str = "truerank.metrics") -> None:
        root = tmp_path / package
        info = root / f"{package}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[{group}]\n{entries}\n")
        (root / f"{module}.py").write_text(source)
        monkeypatch.syspath_prepend(str(root))
        monkeypatch.delitem(sys.modules, module, raising=False)

    return add


def test_a_metric_of_another_package_is_one_of_the_metrics(install: Install) -> None:
    install("acme", "acme_good", GOOD, "first-rank = acme_good:First")
    assert "first-rank" in METRICS
    assert "first-rank" in METRICS.names()
    assert len(METRICS) == len(METRICS.names()) == len(list(METRICS))
    assert "acme_good" not in sys.modules, "names are listed without importing what is behind them"
    [metric] = make_metrics("first-rank(base=3)@5")
    assert "acme_good" in sys.modules
    assert (str(metric), METRICS.make(str(metric))) == ("first-rank(base=3)@5", metric)
    [line] = [entry for entry in METRICS.entries() if entry.package != "truerank"]
    assert (line.name, line.summary, line.parameters) == ("first-rank", "One for the first rank.", "base=2")
    assert line.package == "acme"
    assert METRICS.entry("first-rank") == line
    assert METRICS["first-rank"] is type(metric)
    with pytest.raises(UnknownName, match=r"unknown metric 'first-rnk'\. Did you mean 'first-rank'\?"):
        METRICS.make("first-rnk")


def test_a_built_in_name_is_found_without_looking_at_packages() -> None:
    code = "import sys, truerank; truerank.METRICS.make('hr@10'); print([*sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "'truerank.metrics.hit'" in run.stdout
    assert "'truerank.core.entry_point'" not in run.stdout


BROKEN = [
    ("import no_such_library", "raises ModuleNotFoundError (No module named 'no_such_library')"),
    ("1 / 0", "raises ZeroDivisionError (division by zero)"),
    ("raise SystemExit", "raises SystemExit"),
    ("x = 1", "raises AttributeError"),
    ("First = 3", "must be a class derived from truerank.Metric, but it is of type int"),
    ("class First: pass", "must be a class derived from truerank.Metric, but it is a class that is not"),
    (GOOD.replace('"first-rank"', '"other"'), "must have key = 'first-rank', the name of its entry point"),
    (GOOD.replace("@dataclass(frozen=True)", ""), "must be decorated with @dataclass(frozen=True)"),
    (GOOD.replace("@dataclass(frozen=True)", "@dataclass"), "raises TypeError (cannot inherit non-frozen"),
    (GOOD.replace("def gain_at", "def gain_on"), "must define gain_at"),
]


@pytest.mark.parametrize(("source", "said"), BROKEN)
def test_a_broken_plug_in_gives_a_sentence_and_disturbs_no_other(
    install: Install, source: str, said: str
) -> None:
    install("fine", "acme_good", GOOD.replace("first-rank", "last-rank"), "last-rank = acme_good:First")
    install("broken", "acme_broken", source, "first-rank = acme_broken:First")
    with pytest.raises(BrokenPlugin) as raised:
        METRICS.make("first-rank@5")
    assert str(raised.value).startswith("metric 'first-rank' of package 'broken' cannot be used: ")
    assert said in str(raised.value)
    assert str(raised.value).endswith("Correct or uninstall 'broken'.")
    with pytest.raises(BrokenPlugin, match="cannot be used"):
        METRICS.entry("first-rank")
    assert METRICS.entry("last-rank").package == "fine"
    with pytest.warns(DataWarning, match="metric 'first-rank' of package 'broken' cannot be used"):
        names = [entry.name for entry in METRICS.entries()]
    assert "last-rank" in names
    assert "first-rank" not in names
    assert str(METRICS.make("last-rank@5")) == "last-rank@5"


def test_defaults_are_needed(install: Install) -> None:
    source = """
from dataclasses import dataclass, field
import truerank

@dataclass(frozen=True, kw_only=True)
class Bare(truerank.Model):
    size: int
    key = "bare"
    def fit(self, train, **_):
        return None
"""
    install("acme", "acme_bare", source, "bare = acme_bare:Bare", group="truerank.models")
    with pytest.raises(BrokenPlugin, match="must have a default for each parameter, but size has none"):
        MODELS.make("bare")


@pytest.mark.parametrize("name", ["ndcg", "map"])
def test_names_of_truerank_cannot_be_taken(install: Install, name: str) -> None:
    install("acme", "acme_own", GOOD.replace("first-rank", name), f"{name} = acme_own:First")
    assert type(METRICS.make(f"{name}@10")).__module__.startswith("truerank.")
    said = f"metric '{name}' of package 'acme' cannot be used: truerank has a metric of that name itself"
    with pytest.warns(DataWarning, match=said):
        entries = METRICS.entries()
    assert all(entry.package == "truerank" for entry in entries)
    assert len(entries) == len(METRICS)


def test_two_packages_cannot_share_a_name(install: Install) -> None:
    install("one", "acme_one", GOOD, "first-rank = acme_one:First")
    install("two", "acme_two", GOOD, "first-rank = acme_two:First")
    with pytest.raises(BrokenPlugin, match=r"package '(one|two)' offers one of the same name"):
        METRICS.make("first-rank")


def test_a_name_must_be_one_that_can_be_written(install: Install) -> None:
    install("acme", "acme_good", GOOD, "2nd rank = acme_good:First")
    with pytest.warns(DataWarning, match="a name must be letters, digits and any of _.-, a letter first"):
        METRICS.entries()
