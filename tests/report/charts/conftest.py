"""The command line, as the tests of commands run it."""

from tests.cli.conftest import truerank

__all__ = ["truerank"]
