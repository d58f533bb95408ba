"""A bundle: the records of a folder with what was published of them, in an archive whose bytes follow from its content.

It is a zip file and an RO-Crate 1.1 (https://www.researchobject.org/ro-crate/1.1/), whose metadata lists each file with
its sha256 and size.
"""

import hashlib
import json
import stat
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from accelbench.answers.cells import process_rows
from accelbench.data.pictures import MAX_MEMBER_BYTES
from accelbench.errors import UserError
from accelbench.project import COMPARISON, CONFIRMED, MLLOG, PLAN, RACE, REQUESTS
from accelbench.report import csv_file
from accelbench.report.read import Sweep
from accelbench.schema.plan_file import sweep_folders
from accelbench.schema.record import Row
from accelbench.schema.serialize import open_regular, writing

RESULTS, CRATE = "results", "ro-crate-metadata.json"
EPOCH = (1980, 1, 1, 0, 0, 0)  # the time of every member: the earliest that a zip file can name
CELLS, PROCESSES = "cells.csv", "processes.csv"


def tables(sweeps: Sequence[Sweep]) -> dict[str, list[Row]]:
    """The rows of what is published of some sweeps, by the name of their file."""
    cells = [cell for sweep in sweeps for cell in sweep.cells]
    return {
        CELLS: [row for sweep in sweeps for row in csv_file.rows(sweep)],
        PROCESSES: list(process_rows(cells)),
    }


def pack(folder: Path, sweeps: Sequence[Sweep], out: Path) -> int:
    """Writes the bundle of the records in `folder`, of which `sweeps` were read; returns how many files it has.

    Raises OSError: a file can't be read or written. UserError: `out` is there already.
    """
    if out.exists():
        raise UserError(f"--out {out}: is there already")
    files = {name: read(path) for name, path in _sources(folder, sweeps)}
    files |= {name: csv_file.text(rows).encode() for name, rows in tables(sweeps).items()}
    started = [record.started_at for sweep in sweeps for record in sweep.records]
    files[CRATE] = _crate(files, max(started, default=""))
    with writing(out) as path, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name in sorted(files):
            member = zipfile.ZipInfo(name, EPOCH)
            member.compress_type, member.create_system = zipfile.ZIP_DEFLATED, 3  # Unix, on every system
            member.external_attr = (stat.S_IFREG | 0o644) << 16
            archive.writestr(member, files[name])
    return len(files)


def digests(crate: Mapping[str, Any]) -> dict[str, str]:
    """Name -> sha256 of each file that an RO-Crate lists. Raises KeyError, TypeError: it is no such crate."""
    return {str(each["@id"]): str(each["sha256"]) for each in crate["@graph"] if each["@type"] == "File"}


def read(path: Path) -> bytes:
    """A file's content. Raises OSError: it is no regular file, or can't be read. UserError: it is too large."""
    with open_regular(path) as file:
        content = file.read(MAX_MEMBER_BYTES + 1)
    if len(content) > MAX_MEMBER_BYTES:
        raise UserError(f"{path}: larger than the {MAX_MEMBER_BYTES >> 20} MB that a file of a bundle may have")
    return content


def _sources(folder: Path, sweeps: Sequence[Sweep]) -> Iterator[tuple[str, Path]]:
    """Yields the files of the sweeps in `folder` and in `confirmed` beside it, each with its name in the bundle.

    Records that the report does not show, such as those of earlier plans, are left out.
    """
    read = {each.path for sweep in sweeps for each in sweep.processes if each.record is not None and each.path}
    shown = {path.with_suffix(ending) for path in read for ending in (".json", REQUESTS, MLLOG)}
    for top, name in ((folder, RESULTS), (folder.parent / CONFIRMED, CONFIRMED)):
        for sweep in sweep_folders(top) if top.is_dir() else ():
            place = sweep.relative_to(top).as_posix() if sweep != top else folder.resolve().name
            for path in sorted(sweep.iterdir()):
                if path in shown or path.name in (PLAN, RACE, COMPARISON):
                    yield f"{name}/{place}/{path.name}", path


def _crate(files: Mapping[str, bytes], published: str) -> bytes:
    listed = [
        {
            "@id": name,
            "@type": "File",
            "contentSize": str(len(content)),
            "sha256": hashlib.sha256(content).hexdigest(),
        }
        for name, content in sorted(files.items())
    ]
    about = {
        "@id": CRATE,
        "@type": "CreativeWork",
        "about": {"@id": "./"},
        "conformsTo": {"@id": "https://w3id.org/ro/crate/1.1"},
    }
    whole = {
        "@id": "./",
        "@type": "Dataset",
        "name": "Records of accelbench",
        "description": "Records of benchmarks, with raw samples, and the figures that were published of them",
        "datePublished": published,
        "hasPart": [{"@id": each["@id"]} for each in listed],
    }
    graph = {"@context": "https://w3id.org/ro/crate/1.1/context", "@graph": [about, whole, *listed]}
    return (json.dumps(graph, indent=1) + "\n").encode()
