"""Formulas of docstrings and pages as MathML, which browsers draw by themselves.

Pages write a fenced block ``math`` for a formula on a line of its own, and dollar signs around inline code
for one within a sentence, as GitHub reads them.
"""

from __future__ import annotations

import re
from html import escape

_ROLE = re.compile(r":math:`([^`]+)`")
_FENCED = re.compile(
    r"^(?P<indent> *)```(?P<language>[\w-]*)[^\n`]*\n(?P<text>.*?)^ *```$", re.DOTALL | re.MULTILINE
)
_WITHIN = re.compile(r"\$`([^`]+)`\$")
# What matters to LaTeX alone, and what the converter does not know.
_LEFT_OUT = re.compile(r"\\(?:Big|big|Bigl|Bigr|bigl|bigr)(?![a-zA-Z])|\\!")
_RENAMED = {r"\arg": r"\operatorname{arg}", r"\tfrac": r"\frac"}


def formula(latex: str, *, block: bool = False) -> str:
    """Return MathML for a formula; where no converter is installed, the formula as code.

    Parameters
    ----------
    latex : without dollar signs
    block : on a line of its own
    """
    text = " ".join(latex.split())
    try:
        from latex2mathml.converter import convert
    except ImportError:
        return f"<code>{escape(text)}</code>"
    plain = _LEFT_OUT.sub("", text)
    for known, written in _RENAMED.items():
        plain = re.sub(rf"{re.escape(known)}(?![a-zA-Z])", written.replace("\\", r"\\"), plain)
    return str(convert(plain, display="block" if block else "inline"))


def with_inline_formulas(text: str) -> str:
    """Return text whose ``:math:`` roles are MathML."""
    return _ROLE.sub(lambda found: formula(found[1]), text)


def with_formulas(markdown: str) -> str:
    r"""Return a page whose formulas are MathML; other blocks stay as they are.

    Examples
    --------
    >>> page = "Of $`n`$ users:\n\n```math\nx\n```\n\n```sh\necho $`n`$\n```\n"
    >>> drawn = with_formulas(page)
    >>> drawn.count("<math"), drawn.count('display="block"'), "echo $`n`$" in drawn
    (2, 1, True)
    """
    parts, end = [], 0
    for found in _FENCED.finditer(markdown):
        parts.append(_within_sentences(markdown[end : found.start()]))
        is_formula = found["language"] == "math"
        parts.append(found["indent"] + formula(found["text"], block=True) if is_formula else found[0])
        end = found.end()
    return "".join([*parts, _within_sentences(markdown[end:])])


def _within_sentences(text: str) -> str:
    return _WITHIN.sub(lambda found: formula(found[1]), text)
