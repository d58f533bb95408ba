"""A prepared data set: its arrays, which every engine reads, and manifest.json, which describes the arrays."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelbench.errors import DataError, UnsupportedError
from accelbench.project import MANIFEST, project_folder
from accelbench.schema.cell import RANDOM
from accelbench.schema.measurement import Data
from accelbench.schema.serialize import digest, load, read_json, safe, sha256_of

SPLITS = ("train", "test")
# Description of the source of random images.
DRAWN = "normal random numbers, drawn for each cell from its seed"


@dataclass(frozen=True)
class Arrays:
    """The images and labels of one split."""

    images: NDArray[np.uint8]  # uint8, N x height x width; or N x height x width x 3 for colour
    labels: NDArray[np.uint8]  # uint8, N: index of the class

    def part(self, rows: Sequence[int]) -> "Arrays":
        """Returns the images and labels with the indices `rows`, in the order of `rows`."""
        return Arrays(self.images[rows], self.labels[rows])


@dataclass(frozen=True)
class Encoded:
    """The picture files of one split, not decoded."""

    content: NDArray[np.uint8]  # uint8, the concatenated bytes of all files
    ends: NDArray[np.int64]  # int64, N: end of each file in `content`
    labels: NDArray[np.uint8]  # uint8, N: index of the class

    def __getitem__(self, index: int) -> bytes:
        start = int(self.ends[index - 1]) if index else 0
        return self.content[start : int(self.ends[index])].tobytes()


@dataclass(frozen=True, kw_only=True)
class Obtained:
    """The description of a data set whose arrays have been written."""

    classes: Sequence[str] = ()  # names of the classes, in the order of their labels
    source: str = ""  # where the data came from, in words, without absolute paths
    # why this is a stand-in or a part of the data set; None for the whole real data set
    stand_in_reason: str | None = None
    refused: Sequence[str] = ()  # a line for each file that was left out: its name and the reason


def label_type(num_classes: int) -> type[np.integer[Any]]:
    """Returns the type of labels: uint8, or int64 if there are more than 256 classes."""
    return np.uint8 if num_classes <= 256 else np.int64


def array_path(folder: Path, split: str, kind: str) -> Path:
    """Returns the file of an array of a split. `kind`: `images`, `labels`, `encoded` or `ends` (see `Encoded`)."""
    return folder / f"{split}_{kind}.npy"


def how_to_prepare(folder: Path) -> str:
    """Says how to prepare the data set in `folder` again. The text is the end of a message."""
    removed = f"remove {folder}: the next run prepares it again"
    return removed if project_folder() is None else f"prepare it with: dvc repro data@{folder.name}"


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turns an error while a file is read into a DataError. It names the file, and says what the user can do."""
    try:
        yield
    except FileNotFoundError as error:
        raise DataError(f"{path}: not there; {how_to_prepare(path.parent)}") from error
    except (OSError, ValueError, TypeError, KeyError, EOFError) as error:
        raise DataError(f"{path}: not readable ({error}); {how_to_prepare(path.parent)}") from error


def load_split(folder: Path, split: str, num: int | None = None) -> Arrays:
    """Maps a split, or its first `num` images, into memory. Changes of the arrays do not change the files.

    Raises DataError: the split is not readable. Raises UnsupportedError: the split has fewer than `num` images.
    """
    images = _map(folder, split, "images")
    labels = _map(folder, split, "labels")
    if num is not None and num > len(labels):
        raise UnsupportedError(f"data.{split}_images={num}: {folder.name} has {len(labels)} here")
    return Arrays(images[:num], labels[:num])


def load_encoded(folder: Path, split: str) -> Encoded:
    """Maps the picture files of a split into memory. Raises UnsupportedError: the data set has only decoded arrays."""
    if not array_path(folder, split, "encoded").exists():
        raise UnsupportedError(
            f"data.pipeline=jpeg: {folder.name} has only decoded arrays; use data.pipeline=array"
        )
    ends = _map(folder, split, "ends").astype(np.int64)
    return Encoded(_map(folder, split, "encoded"), ends, _map(folder, split, "labels"))


def save_split(folder: Path, split: str, arrays: Arrays) -> None:
    """Writes a split whose arrays are in memory."""
    np.save(array_path(folder, split, "images"), arrays.images)
    np.save(array_path(folder, split, "labels"), arrays.labels)


def _map(folder: Path, split: str, kind: str) -> NDArray[np.uint8]:
    path = array_path(folder, split, kind)
    with _reading(path):
        array: NDArray[np.uint8] = np.load(path, mmap_mode="c")
    return array


def digest_of(manifest: Mapping[str, Any]) -> str:
    """Computes the digest of a manifest without `digest` and `source`, because equal data may have several sources."""
    return digest({key: value for key, value in manifest.items() if key not in ("digest", "source")})


def read_manifest(folder: Path) -> Data:
    """Returns the description of a data set, as it is kept in records. Random images need no folder.

    Raises DataError: the manifest is missing or was altered.
    """
    if folder.name == RANDOM:
        return Data(name=RANDOM, source=DRAWN, digest=digest(DRAWN), stand_in=False)
    manifest = _read(folder)
    with _reading(folder / MANIFEST):
        return load(Data, safe(manifest))


def check_arrays(folder: Path) -> None:
    """Checks the arrays in `folder` against the manifest's checksums. Raises DataError: an array was altered."""
    for name, described in _read(folder)["files"].items():
        with _reading(folder / name):
            if sha256_of(folder / name) != described["sha256"]:
                raise ValueError("altered: its checksum differs from the checksum in the manifest")


def _read(folder: Path) -> dict[str, Any]:
    with _reading(folder / MANIFEST):
        manifest: dict[str, Any] = read_json(folder / MANIFEST)
        if manifest["digest"] != digest_of(manifest):
            raise ValueError("altered: its digest does not fit its contents")
    return manifest


def read_counts(folder: Path) -> dict[str, int]:
    """Split -> number of its images."""
    return {split: sum(of_class.values()) for split, of_class in _counts(folder).items()}


def read_classes(folder: Path) -> list[str]:
    """Returns the names of the classes in the order of their labels. Empty for random images."""
    return list(_counts(folder).get("train", ()))


def _counts(folder: Path) -> dict[str, dict[str, int]]:
    counts: dict[str, dict[str, int]] = read_json(folder / MANIFEST)["counts"]
    return counts
