"""Where ``python -m truerank`` and the command ``truerank`` begin, listening to Ctrl-C before they load."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line."""
    try:
        from truerank.cli.interrupt import listen

        listen()
        from truerank.cli.main import run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("truerank: interrupted.\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
