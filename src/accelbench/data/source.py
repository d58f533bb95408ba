"""Lists the files of a data set's source, so that DVC prepares it again when they change."""

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from accelbench.data.registry import find
from accelbench.errors import UserError
from accelbench.project import pipelines_place
from accelbench.schema.serialize import digest, read_json, write_json

# A longer list is replaced by its digest.
MAX_LISTED = 100


def main(settings_of: Callable[[Path | None, str], Mapping[str, Any]], name: str) -> int:
    """The stage that describes the source of the data set `name`; returns its exit status."""
    try:
        place = pipelines_place()
        described = describe(place.cache, name, str(settings_of(place.project, name).get("source")))
    except OSError as error:
        print(f"error: data.{name}.source: not readable ({error})", file=sys.stderr)
        return 2
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    path = place.data / ".sources" / f"{name}.json"
    if not path.exists() or read_json(path) != described:
        write_json(path, described)
    return 0


def describe(root: Path, name: str, source: str) -> dict[str, Any]:
    """The source's files by name, with size and time of change; their content is checked when they are read.

    `source` is `auto`, `download` or a path.
    """
    if source == "download":  # known by checksum, wherever it comes from
        return {"source": source, "files": {}}
    home = find(name).home
    if home is None or not source.strip():  # no files, or no source: the data stage says what is wrong
        return {"source": None, "files": {}}
    return listed(root / (home if source == "auto" else os.path.expanduser(source)), source)


def listed(place: Path, source: str) -> dict[str, Any]:
    """The file at `place`, or the files below it, as `describe` lists them. `source` is what the list calls it."""
    files = sorted(path for path in place.rglob("*") if path.is_file()) if place.is_dir() else [place]
    found = {
        path.relative_to(place).as_posix(): [path.stat().st_size, path.stat().st_mtime_ns]
        for path in files
        if path.is_file()
    }
    if len(found) > MAX_LISTED:
        return {"source": source, "num_files": len(found), "files": digest(found)}
    return {"source": source, "files": found}
