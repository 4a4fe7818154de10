"""Files that a run trusts: those with the digest that this run computed, and pickles under its own key.

A work folder may be one that others can write to. What a run expects in it, it knows by digests that travel
with the job over the connection to the workers, never by a file of the folder. Whatever can run code when it
is read (a pickle) is written by this run alone, into a folder that only its user can enter, and is loaded
only where a keyed digest shows that these are the bytes that were written; the key exists in the memory of
driver and workers only.
"""

from __future__ import annotations

import hmac
import pickle
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from truerank.core.checkpoint import make_folder
from truerank.core.errors import InvalidData, InvalidParameter
from truerank.distributed.lifetime import ScratchFolder, is_abandoned_name, remote_scratch_name
from truerank.distributed.storage import fetch_bytes, is_remote, join, list_names, remove_folder, write_bytes

_HASH = "blake2b"


@dataclass(frozen=True)
class SealedPickle:
    """An object in a file that this run wrote, and the key without which the file is not loaded.

    Parameters
    ----------
    path : of the file
    key : of its digest; of this run only, and never written
    digest : keyed digest of the bytes that were written
    """

    path: str
    key: bytes = field(repr=False)
    digest: bytes = field(repr=False)

    def load(self) -> Any:
        """Return the object.

        Raises
        ------
        InvalidData
            When the file does not hold the bytes that this run wrote; nothing of it is run.
        """
        data = fetch_bytes(self.path)
        if not hmac.compare_digest(hmac.digest(self.key, data, _HASH), self.digest):
            raise InvalidData(
                f"'{self.path}' must hold what this run wrote, but somebody has changed it, so it is not "
                "loaded. Use a work folder that only you can write to, and run again."
            )
        return pickle.loads(data)  # noqa: S301 - bytes of this run, shown by the keyed digest


def write_pickle(folder: str, name: str, value: object, *, what: str, instead: str) -> SealedPickle:
    """Write an object for the workers of this run into a private folder.

    Parameters
    ----------
    folder : from ``private_folder``
    name : of the file
    value : the object
    what, instead : how a message calls the object, and what it says to use where this cannot be pickled

    Raises
    ------
    InvalidParameter
        When the object cannot be pickled.
    """
    try:
        data = pickle.dumps(value, protocol=5)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InvalidParameter(
            f"{what} must be picklable for workers, but {type(value).__name__} is not ({error}). {instead}"
        ) from None
    key, path = secrets.token_bytes(32), join(folder, name)
    write_bytes(path, data)
    return SealedPickle(path, key, hmac.digest(key, data, _HASH))


@contextmanager
def private_folder(work_dir: str) -> Iterator[str]:
    """Yield a new folder within the work folder that only this user can enter; it is removed at the end.

    Those that killed runs of this machine have left are removed first. A remote folder has no modes: there
    the keyed digest alone protects what is in it.
    """
    if is_remote(work_dir):
        with suppress(Exception):  # what others left is no reason to stop
            for name in list_names(work_dir):
                if is_abandoned_name(name, "private"):
                    remove_folder(join(work_dir, name))
        place = join(work_dir, remote_scratch_name("private"))
        try:
            yield place
        finally:
            with suppress(Exception):  # the store may be the one that is lost
                remove_folder(place)
        return
    make_folder(Path(work_dir), "files of the work folder")
    try:
        folder = ScratchFolder("private", work_dir)
    except OSError as error:
        raise InvalidParameter(
            f"files of the work folder must be written to '{work_dir}', but that failed ({error.strerror}). "
            "Choose another path."
        ) from None
    try:
        yield folder.path
    finally:
        folder.close()
