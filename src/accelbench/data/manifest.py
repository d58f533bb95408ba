"""manifest.json: the description of a prepared data set, and the digest of its data."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from accelbench.data.arrays import KINDS, SPLITS, array_path, how_to_prepare
from accelbench.errors import DataError
from accelbench.project import MANIFEST
from accelbench.schema.measurement import Data
from accelbench.schema.ranges import Count
from accelbench.schema.serialize import digest, load, open_regular, read_bytes, read_json

# Other names could lead to files outside of the data set's folder.
FileName = Annotated[
    str, re.compile("|".join(array_path(Path(), split, kind).name for split in SPLITS for kind in KINDS))
]


@dataclass(frozen=True, kw_only=True)
class Contents:
    """The arrays of a data set."""

    files: Mapping[FileName, Mapping[str, Any]]  # shape and dtype of the array, sha256 of the file
    # split -> class -> number of images; empty for random images
    counts: Mapping[Annotated[str, re.compile("|".join(SPLITS))], Mapping[str, Count]]


def digest_of(manifest: Mapping[str, Any]) -> str:
    """The digest of a manifest, without `digest` itself and `source`, since equal data may have several sources."""
    return digest({key: value for key, value in manifest.items() if key not in ("digest", "source")})


def read_manifest(folder: Path) -> Data:
    """The data set prepared in `folder`, as records describe it. Raises DataError: it is not there, or was altered."""
    return _read(folder)[0]


def check_arrays(folder: Path) -> None:
    """Checks the arrays in `folder` against the manifest's checksums. Raises DataError: something was altered."""
    for name, described in _read(folder)[1].files.items():
        try:
            with open_regular(folder / name) as file:
                checksum = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise DataError(f"{folder / name}: not readable ({error.strerror}); {how_to_prepare(folder)}") from error
        if checksum != described.get("sha256"):
            raise DataError(f"{folder / name}: altered (not the manifest's checksum); {how_to_prepare(folder)}")


def _read(folder: Path) -> tuple[Data, Contents]:
    path = folder / MANIFEST
    try:
        manifest = load(dict[str, Any], read_json(path))
        data = load(Data, {key: manifest[key] for key in ("name", "digest", "source", "stand_in")}, clean=True)
        contents = load(Contents, {key: manifest[key] for key in ("files", "counts")})
    except FileNotFoundError as error:
        raise DataError(f"{path}: not there; {how_to_prepare(folder)}") from error
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"{path}: not readable ({error}); {how_to_prepare(folder)}") from error
    if data.digest != digest_of(manifest):
        raise DataError(f"{path}: altered (its digest is not that of its contents); {how_to_prepare(folder)}")
    return data, contents


def read_counts(folder: Path) -> dict[str, int]:
    """Number of images of each split."""
    counts = _counts(folder)
    return {split: sum(of_class.values()) for split, of_class in counts.items()}


def read_classes(folder: Path) -> list[str]:
    """The classes' names, in the order of the labels; none for random images."""
    return list(_counts(folder).get("train", ()))


def _counts(folder: Path) -> dict[str, dict[str, int]]:
    # Not by `read_json`: a cell's process asks, which may lack its library.
    counts: dict[str, dict[str, int]] = json.loads(read_bytes(folder / MANIFEST))["counts"]
    return counts
