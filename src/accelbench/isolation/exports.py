"""The exported networks of a sweep, which its cells share: exporting takes seconds, compiling half a minute."""

import os
from itertools import accumulate
from pathlib import Path
from shutil import disk_usage, rmtree

from accelbench.engines.registry import UNFINISHED
from accelbench.schema.serialize import digest

MAX_BYTES = 2 << 30  # of all together: the temporary folder may be in memory
MAX_SHARE = 0.5  # of the room that there would be without them


class Exports:
    """Folders of exported networks.

    Args:
        parent: has them; made when it is needed.
        max_bytes: when they take more, or more than `MAX_SHARE`, those that were not used for the longest time are
            removed.
    """

    def __init__(self, parent: Path, max_bytes: int = MAX_BYTES) -> None:
        self._parent, self._max_bytes = parent, max_bytes

    def folder(self, exported_as: str, data_folder: Path) -> Path:
        """The folder of a network (`HostSpec.exported_as`), which exists if it has been exported.

        The data set may calibrate the network.
        """
        path = self._parent / digest([exported_as, str(data_folder)])[:16]
        self._parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            os.utime(path)
        return path

    def make_room(self) -> None:
        """Removes folders until the others take no more than they may; to be called before a network is exported."""
        for path in self._parent.glob(f"{UNFINISHED}*"):  # of a process that was killed, and may still be ending
            rmtree(path, ignore_errors=True)
        folders = [path for path in self._parent.iterdir() if not path.name.startswith(UNFINISHED)]
        folders.sort(key=lambda path: path.stat().st_mtime, reverse=True)
        sizes = [sum(each.stat().st_size for each in path.rglob("*") if each.is_file()) for path in folders]
        limit = min(self._max_bytes, MAX_SHARE * (disk_usage(self._parent).free + sum(sizes)))
        for path, total in zip(folders, accumulate(sizes), strict=True):
            if total > limit:
                rmtree(path, ignore_errors=True)
