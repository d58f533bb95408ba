"""One way for every data set: original files where they are, else a download, else a stand-in that says so."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from accelbench.errors import DownloadError

OWN_DIVISION = "its own"


@dataclass(frozen=True, kw_only=True)
class Verified:
    """What was found in a source, its arrays being written.

    Attributes:
        refused: what was left out, and why, one line each.
        division: how training and test were told apart.
    """

    refused: Sequence[str] = ()
    division: str = OWN_DIVISION


@dataclass(frozen=True, kw_only=True)
class Obtained:
    """A data set whose arrays are written.

    Attributes:
        classes: the classes' names, in the order of the labels.
        source: where it came from, for people; no absolute path.
        stand_in_reason: why this only stands in for the set it is named after; None where it is that set.
        refused: what of the source was left out, and why, one line each.
        division: how training and test were told apart, such as `its own`.
    """

    classes: Sequence[str]
    source: str
    stand_in_reason: str | None = None
    refused: Sequence[str] = ()
    division: str = OWN_DIVISION


@dataclass(frozen=True)
class Target:
    """Where a data set's arrays are written, and how.

    Attributes:
        folder: gets {train,test}_{images,labels}.npy.
        settings: the set's own settings, such as its `image_size`.
    """

    folder: Path
    settings: Mapping[str, int] = field(default_factory=dict)


class DataSet(Protocol):
    """What a module of `accelbench.data.sets` has as its `DATA_SET`.

    Attributes:
        home: where its original files are looked for first, relative to the project; None where it has none.
        settings: its own settings in params.yaml -> their defaults.
    """

    @property
    def home(self) -> str | None:
        """See the class."""

    @property
    def settings(self) -> Mapping[str, int]:
        """See the class."""

    def obtain(self, name: str, source: str, root: Path, target: Target) -> Obtained:
        """Writes its arrays.

        Args:
            name: its name in params.yaml.
            source: `auto`, `download`, or a path.
            root: the project's folder.
            target: where they are written.

        Raises:
            DataError: the data is missing, incomplete or altered.
        """


@dataclass(frozen=True, kw_only=True)
class FileSet:
    """A data set of original files: where they are, else a download, else a stand-in that says so.

    Attributes:
        title: its name for people.
        home, settings: see `DataSet`.
        classes: the classes' names, in the order of the labels.
        download: fetches the original files into a folder, those apart that are there, and returns what `read`
            takes; raises DownloadError.
        read: verifies the original files at a path and writes their arrays; raises DataError.
        stand_in: writes a stand-in's arrays; returns what it is made of.
    """

    title: str
    home: str
    classes: Sequence[str]
    download: Callable[[Path], Path]
    read: Callable[[Path, Target], Verified]
    stand_in: Callable[[Target], str]
    settings: Mapping[str, int] = field(default_factory=dict)

    def obtain(self, name: str, source: str, root: Path, target: Target) -> Obtained:
        """Writes the arrays; `auto` takes what is in `home`, else an earlier or a new download, else the stand-in."""
        if source == "download":
            return self._downloaded(name, root, target)
        if source != "auto":
            return self._from_files(root / os.path.expanduser(source), _shown(source), target)
        if _is_there(root / self.home):  # what a user put there is wanted: what is wrong with it is an error
            return self._from_files(root / self.home, self.home, target)
        try:
            return self._downloaded(name, root, target)
        except DownloadError as error:
            return Obtained(
                classes=self.classes,
                source=f"stand-in for {self.title}: {self.stand_in(target)}",
                stand_in_reason=f"{self.home} is not there; {error}",
            )

    def _downloaded(self, name: str, root: Path, target: Target) -> Obtained:
        return self._read(self.download(root / "data" / ".downloads" / name), "downloaded", target)

    def _from_files(self, path: Path, shown: str, target: Target) -> Obtained:
        return self._read(path, f"from {shown}", target)

    def _read(self, path: Path, how: str, target: Target) -> Obtained:
        found = self.read(path, target)
        source = f"{self.title}, {how}"
        return Obtained(classes=self.classes, source=source, refused=found.refused, division=found.division)


def _is_there(path: Path) -> bool:
    return path.is_file() or (path.is_dir() and any(path.iterdir()))


def _shown(source: str) -> str:
    """How `source` is called in a manifest: as written, or its last part where it is absolute."""
    path = Path(source)
    return path.name if path.is_absolute() or source.startswith("~") else path.as_posix()
