"""What ends with the driver, also when the driver is killed: its worker processes and its temporary folders.

A temporary folder is removed at the end of its block. If its process is killed before, a small process that
was started with the first folder removes it; if that is killed as well, the next run does, which sees that
nobody holds the lock in the folder.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from truerank.core.checkpoint import lock_file, machine_code

#: Seconds between two looks whether the driver lives.
LOOK_SECONDS = 1.0
_KILL_WITH_PARENT, _SIGKILL = 1, 9
_LOCK = "truerank.lock"
#: A folder without a lock is as old as this before it is taken for abandoned.
_START_SECONDS = 60.0


def end_with_driver(driver: int) -> None:
    """End this process within seconds after the driver, its parent, has ended in whatever way.

    Linux does it itself, even while a long call keeps other threads from running; elsewhere a thread looks.

    Parameters
    ----------
    driver : process id of the parent
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_KILL_WITH_PARENT, _SIGKILL)
    threading.Thread(target=_wait_for_end, args=(driver,), daemon=True, name="truerank-driver").start()


def _wait_for_end(driver: int) -> None:
    while os.getppid() == driver:
        time.sleep(LOOK_SECONDS)
    os._exit(1)


class ScratchFolder:
    """A new folder that only this user can enter, removed by ``close`` or soon after this process has ended.

    Parameters
    ----------
    name : what it is for, part of its name
    within : where it is made; None for the system's folder of temporary files

    Examples
    --------
    >>> folder = ScratchFolder("example")
    >>> Path(folder.path).is_dir(), folder.close(), Path(folder.path).exists()
    (True, None, False)
    """

    def __init__(self, name: str, within: str | Path | None = None) -> None:
        parent = Path(tempfile.gettempdir() if within is None else within)
        remove_abandoned(parent, name)
        self.path = tempfile.mkdtemp(prefix=f"truerank-{name}-{machine_code()}-", dir=parent)
        self._process = os.getpid()
        try:
            self._lock = os.open(Path(self.path) / _LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError:
            Path(self.path).rmdir()
            raise
        lock_file(self._lock)
        _tell_remover("+", self.path)
        atexit.register(self.close)

    def close(self) -> None:
        """Remove the folder with all that is in it; a process that was forked leaves it alone."""
        atexit.unregister(self.close)
        if os.getpid() == self._process:
            self._process = 0
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._lock)
            _tell_remover("-", self.path)


@contextmanager
def scratch_folder(name: str, within: str | Path | None = None) -> Iterator[str]:
    """Yield the path of a `ScratchFolder` for the length of a ``with`` block."""
    folder = ScratchFolder(name, within)
    try:
        yield folder.path
    finally:
        folder.close()


def remove_abandoned(parent: Path, name: str) -> list[str]:
    """Remove scratch folders of this machine and user whose processes were killed, and return their names."""
    removed = []
    for folder in parent.glob(f"truerank-{name}-{machine_code()}-*"):
        with suppress(OSError):  # it is gone, or of somebody else
            if _is_abandoned(folder):
                shutil.rmtree(folder, ignore_errors=True)
                removed.append(folder.name)
    return removed


def _is_abandoned(folder: Path) -> bool:
    status = folder.lstat()
    if folder.is_symlink() or status.st_uid != os.geteuid():
        return False
    try:
        descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:  # just about to be locked; or a late task of a worker has made it again
        return time.time() - status.st_mtime > _START_SECONDS
    try:
        return lock_file(descriptor) is True
    finally:
        os.close(descriptor)


def remote_scratch_name(name: str) -> str:
    """Return the name of a temporary folder in a store that has no locks: machine and process are in it."""
    return f"truerank-{name}-{machine_code()}-{os.getpid()}-{secrets.token_hex(8)}"


def is_abandoned_name(name: str, of: str) -> bool:
    """Whether a name from ``remote_scratch_name`` is one of this machine whose process has ended."""
    told = name.removeprefix(f"truerank-{of}-{machine_code()}-").split("-")
    if len(told) != 2 or not told[0].isdecimal():
        return False
    try:
        os.kill(int(told[0]), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False


# Leaves its parent, waits until the last process that writes to it has ended, and removes what is still held.
_REMOVER = """
import os, shutil, sys, time
if os.fork():
    os._exit(0)
os.chdir("/")
held = set()
for told in sys.stdin.buffer.read().split(b"\\0"):
    (held.add if told[:1] == b"+" else held.discard)(told[1:])
held.discard(b"")
for _ in range(60):
    for folder in held:
        shutil.rmtree(folder, ignore_errors=True)
    if not any(map(os.path.lexists, held)):
        break
    time.sleep(1)
"""
_removers: dict[int, int] = {}
_starting = threading.Lock()


def _tell_remover(sign: str, path: str) -> None:
    """Tell the remover of this process, which is started by the first folder, what to remove and what not."""
    if not hasattr(os, "fork") or not sys.executable:
        return
    with _starting, suppress(OSError):  # without a remover the next run does its work
        if os.getpid() not in _removers:
            _removers[os.getpid()] = _start_remover()
        os.write(_removers[os.getpid()], os.fsencode(f"{sign}{path}") + b"\0")


def _start_remover() -> int:
    reader, writer = os.pipe()
    try:
        subprocess.run(  # noqa: S603 - our own text
            [sys.executable, "-I", "-S", "-c", _REMOVER],
            stdin=reader,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            check=False,
        )
    finally:
        os.close(reader)
    return writer
