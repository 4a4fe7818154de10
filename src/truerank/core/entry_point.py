"""Plug-ins of other packages, found by the entry points that these packages declare.

A package offers a metric by an entry point of the group ``truerank.metrics``, a model by one of
``truerank.models``, and so on for estimators, samplers, splits, strategies and engines. Entry points are read
when a name is asked for that truerank does not have itself, or when names are listed; the module behind one
is imported when its name is first used. What a package offers is checked then: a broken one is answered with
a sentence and disturbs no other.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from truerank.core.errors import BrokenPlugin

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_NAME = re.compile(r"[A-Za-z][\w.-]*\Z")


@dataclass(frozen=True)
class InstalledPlugin:
    """A plug-in that another package offers, not imported yet.

    Parameters
    ----------
    kind, name : what it is, such as ``metric``, and how it is written
    base : the class it must be derived from
    package : the distribution that offers it
    target : ``module:Class``
    problem : why it cannot be used, as a clause; empty where nothing is known against it
    """

    kind: str
    name: str
    base: type[Any]
    package: str
    target: str
    problem: str = ""

    def load(self) -> type[Any]:
        """Import and return the class.

        Raises
        ------
        BrokenPlugin
            When it cannot be imported, or is not a frozen dataclass with defaults derived from its base.
        """
        if self.problem:
            raise self.broken(self.problem)
        return _load(self)

    def broken(self, problem: str) -> BrokenPlugin:
        """Return the error that says why it cannot be used."""
        return BrokenPlugin(
            f"{self.kind} {self.name!r} of package {self.package!r} cannot be used: {problem}. "
            f"Correct or uninstall {self.package!r}."
        )


def installed_plugins(
    kind: str, base: type[Any], group: str, own: Collection[str]
) -> dict[str, InstalledPlugin]:
    """Return what other packages offer in a group of entry points, by name.

    Parameters
    ----------
    kind, base : what one is called in messages, and the class it must be derived from
    group : of entry points, such as ``truerank.metrics``
    own : names that truerank has itself, which others cannot take
    """
    offered: dict[str, InstalledPlugin] = {}
    for entry in _entries(group, tuple(sys.path)):
        package = entry.dist.name if entry.dist is not None else entry.module
        problem = ""
        if entry.name in own:
            problem = f"truerank has a {kind} of that name itself"
        elif entry.name in offered:
            problem = f"package {offered[entry.name].package!r} offers one of the same name"
        elif not _NAME.match(entry.name):
            problem = "a name must be letters, digits and any of _.-, a letter first"
        offered[entry.name] = InstalledPlugin(kind, entry.name, base, package, entry.value, problem)
    return offered


@cache
def _entries(group: str, path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """Return the entry points of a group; ``path`` is what they were found on."""
    from importlib.metadata import entry_points

    return tuple(entry_points(group=group))


@cache
def _load(plugin: InstalledPlugin) -> type[Any]:
    import importlib

    module, _, attribute = plugin.target.partition(":")
    try:
        found: Any = importlib.import_module(module.strip())
        for name in attribute.strip().split("."):
            found = getattr(found, name)
    except (Exception, SystemExit) as error:  # whatever the code of others raises
        raise plugin.broken(f"importing '{plugin.target}' raises {_described(error)}") from None
    problem = _problem(found, plugin.name, plugin.base)
    if problem:
        raise plugin.broken(f"{plugin.target!r} {problem}")
    loaded: type[Any] = found
    return loaded


def _problem(found: Any, name: str, base: type[Any]) -> str:
    """Return what keeps an object from being a plug-in, as a clause; empty where nothing does."""
    if not isinstance(found, type) or not issubclass(found, base):
        what = "a class" if isinstance(found, type) else f"of type {type(found).__name__}"
        return f"must be a class derived from truerank.{base.__name__}, but it is {what} that is not"
    key = getattr(found, "key", "")
    if key != name:
        return f"must have key = {name!r}, the name of its entry point, but key is {key!r}"
    annotated = {
        each for each, hint in vars(found).get("__annotations__", {}).items() if "ClassVar" not in str(hint)
    }
    declared = {field.name for field in fields(found)} if is_dataclass(found) else set()
    if not annotated <= declared:
        return "must be decorated with @dataclass(frozen=True)"
    without = [f.name for f in fields(found) if f.default is MISSING and f.default_factory is MISSING]
    if without:
        return f"must have a default for each parameter, but {', '.join(without)} has none"
    missing = sorted(getattr(found, "__abstractmethods__", ()))
    if missing:
        return f"must define {', '.join(missing)}"
    return ""


def _described(error: BaseException) -> str:
    first = (str(error).strip().splitlines() or [""])[0].rstrip(".")
    return f"{type(error).__name__} ({first})" if first else type(error).__name__
