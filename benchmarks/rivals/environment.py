"""One virtual environment per library, because their requirements conflict."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

REQUIREMENTS = Path(__file__).parent / "requirements"


class InstallError(RuntimeError):
    """A library could not be installed; the text is what pip said last."""


@dataclass(frozen=True)
class Environments:
    """Environments in a folder; those that are there and match their requirements are used again."""

    folder: Path

    def python(self, library: str) -> Path:
        """Return the interpreter of a library's environment, which is made when needed."""
        if library == "truerank":
            return Path(sys.executable)
        wanted = REQUIREMENTS / f"{library}.txt"
        home = self.folder / library
        python, mark = home / "bin" / "python", home / "requirements.sha256"
        digest = hashlib.sha256(wanted.read_bytes()).hexdigest()
        if mark.exists() and mark.read_text() == digest:
            return python
        print(f"installing {library} into an environment of its own", flush=True)
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", home], check=True)
        pip = [
            str(python),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "-r",
            str(wanted),
        ]
        done = subprocess.run(pip, capture_output=True, text=True, check=False)
        if done.returncode:
            raise InstallError(last_line(done.stderr))
        mark.write_text(digest)
        return python


def default_folder() -> Path:
    """Return a folder in the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "truerank-rivals"


def last_line(text: str) -> str:
    """Return the last line that says something."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no message"
