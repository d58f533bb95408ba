"""manifest.json: the description of a prepared data set, and the digest of its data."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from accelbench.data.arrays import how_to_prepare
from accelbench.errors import DataError
from accelbench.project import MANIFEST
from accelbench.schema.conditions import Data
from accelbench.schema.serialize import digest, load, read_json


def digest_of(manifest: Mapping[str, Any]) -> str:
    """The digest of a manifest, without `digest` itself and `source`, since equal data may have several sources."""
    return digest({key: value for key, value in manifest.items() if key not in ("digest", "source")})


def read_manifest(folder: Path) -> Data:
    """The data set prepared in `folder`, as records describe it.

    Raises:
        DataError: the data set is not prepared, or its manifest was altered.
    """
    path = folder / MANIFEST
    try:
        manifest = read_json(path)
        data = load(Data, {key: manifest[key] for key in ("name", "digest", "source", "stand_in")}, clean=True)
    except FileNotFoundError as error:
        raise DataError(f"{path}: not there; {how_to_prepare(folder)}") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}: not readable ({error}); {how_to_prepare(folder)}") from error
    if data.digest != digest_of(manifest):
        raise DataError(f"{path}: altered (its digest is not that of its contents); {how_to_prepare(folder)}")
    return data


def check_arrays(folder: Path) -> None:
    """Checks the arrays in `folder` against the manifest's checksums: records name their data by its digest.

    Raises:
        DataError: an array is missing, cut short or altered.
    """
    files = json.loads((folder / MANIFEST).read_text())["files"]
    for name, described in files.items():
        try:
            with (folder / name).open("rb") as file:
                checksum = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise DataError(f"{folder / name}: not readable ({error.strerror}); {how_to_prepare(folder)}") from error
        if checksum != described["sha256"]:
            raise DataError(f"{folder / name}: altered (not the manifest's checksum); {how_to_prepare(folder)}")


def read_counts(folder: Path) -> dict[str, int]:
    """Number of images of each split."""
    counts = json.loads((folder / MANIFEST).read_text())["counts"]
    return {split: sum(of_class.values()) for split, of_class in counts.items()}


def read_classes(folder: Path) -> list[str]:
    """The classes' names, in the order of the labels; none for random images."""
    return list(json.loads((folder / MANIFEST).read_text())["counts"].get("train", ()))
