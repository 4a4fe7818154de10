"""The help of every command: options in panels by subject, and examples to paste.

A panel holds the options of one subject; those that belong to none of them, most often because only one
command has them, come first.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

#: Command -> what one wants, and the call for it.
EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "": (
        ("Evaluate two models on the demo data", "truerank evaluate demo --model popularity --model ease"),
        ("Ask which is better", "truerank compare --data demo --model ease --model item-knn"),
    ),
    "evaluate": (
        (
            "Your own events, and a report to look at",
            "truerank evaluate events.csv --model ease --report out.html",
        ),
        (
            "From 100 sampled negatives, with the exact values beside them",
            "truerank evaluate demo --model ials --negatives 100 --check --metrics recall@10",
        ),
        (
            "As few scores as +-0.02 needs, and the answer as LaTeX",
            "truerank evaluate demo --model ease --metrics recall@10 --precision 0.02 --out table.tex",
        ),
    ),
    "sample": (
        (
            "Ranks of two models among 99 sampled items",
            "truerank sample demo --model ease --model popularity --out ranks.parquet",
        ),
    ),
    "estimate": (
        (
            "Ranks that another framework computed among 100 of 3,706 items",
            "truerank estimate ranks.csv --n-items 3706 --negatives 100",
        ),
        (
            "Another estimator, the answer as JSON",
            "truerank estimate ranks.csv --n-items 3706 --negatives 100 --estimator mle --out mle.json",
        ),
    ),
    "compare": (
        ("Fit and compare", "truerank compare --data events.csv --model ease --model ials"),
        (
            "Ranks that were written before",
            "truerank compare exact.parquet --metrics ndcg@10 --baseline popularity",
        ),
    ),
    "plan": (
        (
            "How many negatives or users +-0.02 needs",
            "truerank plan demo --model ease --metrics recall@10 --half-width 0.02",
        ),
        ("What ranking a million users costs on 16 cores", "truerank plan --scale 1e6x1e5x64 --workers 16"),
    ),
    "fit": (("Fit once, evaluate often", "truerank fit demo --model ease --out ease.truerank"),),
    "study": (
        (
            "Errors of two estimators over ten samples",
            "truerank study demo --model popularity --estimator smooth,naive --cutoffs 1-20 --repeats 10",
        ),
    ),
    "subsample": (
        (
            "A tenth of the events, chosen by random walks over users and items",
            "truerank subsample demo --strategy random-walk --fraction 0.1 --out small.parquet",
        ),
    ),
    "agreement": (
        (
            "Whether three models keep their order on half of the events",
            "truerank agreement demo --strategies random,head-user --fractions 0.5 --seeds 1 "
            "--models popularity,ease,item-knn",
        ),
    ),
    "list": (
        ("What kinds of plug-ins there are", "truerank list"),
        ("All models", "truerank list models"),
        ("One model with its parameters", "truerank list models ease"),
    ),
    "trec": (
        ("Metrics of a run", "truerank trec run.txt qrels.txt --metrics ndcg@10,recall@10 --out result.json"),
    ),
    "data": (
        ("What there is, and what lies on this machine", "truerank data list"),
        ("One data set", "truerank data describe ml-1m"),
    ),
    "data list": (("As a table for a spreadsheet", "truerank data list --out datasets.csv"),),
    "data describe": (("Origin, licence and size", "truerank data describe ml-1m"),),
    "data fetch": (("Download, unless it is here", "truerank data fetch ml-1m"),),
    "paper": (
        ("What can be reproduced, and what came out", "truerank paper list"),
        ("Compute one table again", "truerank paper run r19.table1"),
    ),
    "paper list": (
        ("Everything", "truerank paper list"),
        ("One paper, with titles and data", "truerank paper list r19"),
    ),
    "paper run": (
        ("One table", "truerank paper run r19.table1"),
        ("A whole paper, with a page of all numbers", "truerank paper run r19 --quick --report r19.html"),
    ),
}
#: Subject -> option -> what stands for its value.
PANELS: dict[str, dict[str, str]] = {
    "Events and split": {
        "data": "DATA",
        "split": "SPLIT",
        "test": "FILE",
        "users": "N",
        "columns": "NAMES",
        "time_format": "FORMAT",
        "drop_missing": "",
        "duplicates": "RULE",
        "min_rating": "N",
        "core": "N",
        "min_history": "N",
    },
    "Models, ranks and metrics": {
        "model": "MODEL",
        "metrics": "METRICS",
        "by": "GROUPING",
        "gain": "GAIN",
        "ties": "RULE",
        "seen": "RULE",
        "zero_based": "",
        "n_items": "N",
        "replacement": "ANSWER",
    },
    "Sampled negatives": {
        "negatives": "N",
        "sampler": "SAMPLER",
        "estimator": "ESTIMATOR",
        "precision": "WIDTH",
        "budget": "COST",
        "price": "NUMBER",
        "scores": "FILE",
        "proxy": "MODELS",
        "check": "",
    },
    "Intervals": {
        "interval": "METHOD",
        "uncertainty": "METHOD",
        "level": "LEVEL",
        "target": "TARGET",
        "bounds": "",
        "posterior": "",
        "resamples": "N",
    },
    "Computation": {
        "seed": "N",
        "threads": "N",
        "workers": "N",
        "engine": "ENGINE",
        "work_dir": "FOLDER",
        "keep": "FOLDER",
    },
    "Output": {
        "format": "FORMAT",
        "out": "FILE",
        "ranks_out": "FILE",
        "report": "FILE",
        "quiet": "",
        "verbose": "",
        "help": "",
    },
}
_OWN = "Options"
_WIDEST = 100
_LONGEST_CALL = 72


def print_help(command: Any, ctx: Any, groups: Mapping[str, Iterable[str]] | None = None) -> None:
    """Print the help of a command or of a group of commands to stdout.

    Parameters
    ----------
    command : what typer built
    ctx : the context of the call
    groups : panel -> names of commands; one panel by default
    """
    from rich.console import Console, Group
    from rich.padding import Padding
    from rich.panel import Panel
    from rich.text import Text

    console = Console(highlight=False)
    console.width = min(console.width, _WIDEST)
    parameters = [one for one in command.get_params(ctx) if not getattr(one, "hidden", False)]
    arguments = [one for one in parameters if one.param_type_name == "argument"]
    commands = getattr(command, "commands", {})
    console.print()
    console.print(Text(f" {usage(command, ctx)}", style="bold"))
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        console.print()
        console.print(Padding(Text(" ".join(paragraph.split())), (0, 1)))
    console.print()
    panels: dict[str, list[tuple[Text, Text]]] = {}
    for name, members in (groups or {"Commands": commands}).items():
        panels[name] = [_command_row(one, commands[one]) for one in members if one in commands]
    panels["Arguments"] = [_row(_argument_name(one), one) for one in arguments]
    for panel in (_OWN, *PANELS):
        chosen = [one for one in parameters if one not in arguments and _panel_of(one) == panel]
        panels[panel] = [_row(_option_name(one), one) for one in chosen]
    panels = {name: rows for name, rows in panels.items() if rows}
    first = max((row[0].cell_len for rows in panels.values() for row in rows), default=0)
    for name, rows in panels.items():
        console.print(Panel(_grid(rows, first), title=name, title_align="left", border_style="dim"))
    examples = EXAMPLES.get(ctx.command_path.partition(" ")[2], ())
    if examples:
        lines = [
            text
            for what, call in examples
            for text in (
                Text(what),
                Text(continued(call, min(console.width - 8, _LONGEST_CALL)), style="cyan"),
            )
        ]
        console.print(Panel(Group(*lines), title="Examples", title_align="left", border_style="dim"))


def continued(call: str, width: int) -> str:
    r"""Return a call as one types it: indented, and continued before an option where it is too long.

    Examples
    --------
    >>> print(continued("truerank evaluate demo --model ease --seed 1", 30))
      truerank evaluate demo \
          --model ease --seed 1
    """
    lines = ["  "]
    for part in call.replace(" --", "\n--").split("\n"):
        piece = part if lines == ["  "] else f" {part}"
        if lines[-1].strip() and len(lines[-1] + piece) > width - 2:
            lines[-1] += " \\"
            lines.append(f"      {part}")
        else:
            lines[-1] += piece
    return "\n".join(lines)


def usage(command: Any, ctx: Any) -> str:
    """Return how a command is called, in one line."""
    if getattr(command, "commands", None):
        return f"Usage: {ctx.command_path} COMMAND ..."
    arguments = [one for one in command.get_params(ctx) if one.param_type_name == "argument"]
    named = [_argument_name(one) if one.required else f"[{_argument_name(one)}]" for one in arguments]
    return " ".join(["Usage:", ctx.command_path, *named, "[OPTIONS]"])


def _argument_name(argument: Any) -> str:
    return f"{argument.name.upper()}{'...' if argument.nargs == -1 else ''}"


def _panel_of(option: Any) -> str:
    return next((panel for panel, names in PANELS.items() if option.name in names), _OWN)


def _option_name(option: Any) -> str:
    """Return all spellings of an option and what stands for its value."""
    written = ", ".join(sorted(option.opts, key=len))
    if option.secondary_opts:
        written = f"{written}, {', '.join(option.secondary_opts)}"
    word = option.metavar or PANELS.get(_panel_of(option), {}).get(option.name)
    if word is None and not option.is_flag:
        word = _type_word(option)
    return f"{written} {word}" if word else written


def _type_word(option: Any) -> str:
    """Return what stands for a value of the option's type; typer names types differently over time."""
    described = getattr(option, "type_descriptor", None) or getattr(option, "type", None)
    name = str(getattr(described, "annotation", described)).lower()
    if "path" in name:
        return "FILE"
    return "N" if "int" in name or "float" in name else "TEXT"


def _row(name: str, parameter: Any) -> tuple[Any, Any]:
    from rich.text import Text

    text = Text(" ".join((getattr(parameter, "help", None) or "").split()))
    default = parameter.default
    if parameter.required and parameter.param_type_name == "option":
        text.append(" [required]", style="red")
    elif not (default is None or default is False or default == "") and parameter.show_default:
        text.append(f" [default: {_written(default, parameter)}]", style="dim")
    return Text(name, style="bold cyan"), text


def _written(default: Any, parameter: Any) -> str:
    if default is True:
        return str(parameter.opts[0])
    return str(getattr(default, "value", default))


def _command_row(name: str, command: Any) -> tuple[Any, Any]:
    from rich.text import Text

    first = inspect.cleandoc(command.help or "").splitlines()
    return Text(name, style="bold cyan"), Text(first[0] if first else "")


def _grid(rows: Iterable[tuple[Any, Any]], first: int) -> Any:
    from rich.table import Table

    grid = Table.grid(padding=(0, 2, 0, 0), expand=True)
    grid.add_column(width=first, no_wrap=True)
    grid.add_column(ratio=1)
    for row in rows:
        grid.add_row(*row)
    return grid
