"""Formulas of docstrings as MathML, which browsers draw by themselves."""

from __future__ import annotations

import re
from html import escape

_INLINE = re.compile(r":math:`([^`]+)`")


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
    # big brackets and thin spaces only matter to LaTeX; the converter knows no \arg
    plain = re.sub(r"\\(?:Big|big|Bigl|Bigr|bigl|bigr)\b", "", text).replace(r"\!", "")
    plain = re.sub(r"\\arg\b", r"\\operatorname{arg}", plain)
    return str(convert(plain, display="block" if block else "inline"))


def with_inline_formulas(text: str) -> str:
    """Return text whose ``:math:`` roles are MathML."""
    return _INLINE.sub(lambda found: formula(found[1]), text)
