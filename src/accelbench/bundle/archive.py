"""A bundle: the records of a folder with what was published of them, in an archive whose bytes follow from its content.

It is a zip file and an RO-Crate 1.1 (https://www.researchobject.org/ro-crate/1.1/), whose metadata lists each file with
its sha256 and size. A signature in a file beside it says who made it, by OpenSSF's model-signing, with keys in files
and no network: `model_signing verify key` reads it, too (https://github.com/sigstore/model-transparency).
"""

import hashlib
import json
import os
import stat
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from accelbench.errors import RefusedError, UserError, how_to_install
from accelbench.judging.target import mllog
from accelbench.project import COMPARISON, CONFIRMED, MLLOG, PLAN, RACE, REQUESTS
from accelbench.report import csv_file
from accelbench.report.export import tables
from accelbench.report.read import Sweep
from accelbench.schema.plan_file import sweep_folders
from accelbench.schema.record import Record, listed
from accelbench.schema.serialize import MAX_MB, read_bytes, writing

RESULTS, CRATE = "results", "ro-crate-metadata.json"
CRATE_URL = "https://w3id.org/ro/crate/1.1"  # of its definition
EPOCH = (1980, 1, 1, 0, 0, 0)  # the time of every member: the earliest that a zip file can name
MAX_FILE_BYTES, MAX_TOTAL_BYTES = MAX_MB << 20, 4 << 30  # that are unpacked


def pack(folder: Path, sweeps: Sequence[Sweep], out: Path, also: Mapping[str, Path] | None = None) -> int:
    """Writes the bundle of the records in `folder`, of which `sweeps` were read; returns how many files it has.

    `also` are further files, by their names in it.

    Raises OSError: `out` can't be written. UserError: it is there already, or records or other files can't be read.
    """
    if out.exists():
        raise UserError(f"--out {out}: is there already")
    if lost := [line for sweep in sweeps for line in sweep.unread]:
        raise UserError("\n".join(["records that can't be read, so that the figures would differ:", *listed(lost)]))
    try:
        files = _sources(folder, sweeps) | dict(also or {})
    except OSError as error:
        raise RefusedError(error) from error
    made = {name: csv_file.text(rows).encode() for name, rows in tables(sweeps).items()}
    contents: dict[str, Path | bytes] = {**files, **made}
    started = [record.started_at for sweep in sweeps for record in sweep.records]
    with writing(out) as path, zipfile.ZipFile(path, "w") as archive:
        entries = [_add(archive, name, content) for name, content in sorted(contents.items())]
        _add(archive, CRATE, _crate(entries, max(started, default="")))
    return len(contents) + 1


def digests(crate: Mapping[str, Any]) -> dict[str, str]:
    """Name -> sha256 of each file that an RO-Crate lists. Raises KeyError, TypeError: it is no such crate."""
    return {str(each["@id"]): str(each["sha256"]) for each in crate["@graph"] if each["@type"] == "File"}


def requests_digest(record: Record) -> str | None:
    """The sha256 of the raw times of its requests; None if none were kept."""
    kept = (record.measurement and record.measurement.serving) or record.unfinished
    return kept.requests_digest if kept else None


def _sources(folder: Path, sweeps: Sequence[Sweep]) -> dict[str, Path]:
    """The files of the sweeps in `folder` and `confirmed`, by names in the bundle. Raises UserError: one is twice."""
    # Without records that the report does not show, as of earlier plans, and plans that confirm nothing of it.
    shown = set[Path]()
    for each in (each for sweep in sweeps for each in sweep.processes):
        if each.path and each.record:
            # A file that its record does not tell of is that of an earlier process.
            kept = {".json": True, REQUESTS: requests_digest(each.record), MLLOG: mllog(each.record)}
            shown |= {each.path.with_suffix(ending) for ending, is_kept in kept.items() if is_kept}
    folders, found = {path.parent for path in shown}, dict[str, Path]()
    for top, name in ((folder, RESULTS), (folder.parent / CONFIRMED, CONFIRMED)):
        for sweep in sweep_folders(top) if top.is_dir() else ():
            place = sweep.relative_to(top).as_posix() if sweep != top else os.path.basename(os.path.abspath(top))
            for path in sorted(sweep.iterdir()) if sweep in folders or name == RESULTS else ():
                if path in shown or path.name in (PLAN, RACE, COMPARISON):
                    if (member := f"{name}/{place}/{path.name}") in found:
                        raise UserError(
                            f"{path}: would be {member} in the bundle, as {found[member]} is: rename a folder"
                        )
                    found[member] = path
    return found


def _add(archive: zipfile.ZipFile, name: str, content: Path | bytes) -> dict[str, str]:
    """Writes a file into the archive, and returns its entry in the crate."""
    member = zipfile.ZipInfo(name, EPOCH)
    member.compress_type, member.create_system = zipfile.ZIP_DEFLATED, 3  # Unix, on every system
    member.external_attr = (stat.S_IFREG | 0o644) << 16
    try:
        content = content if isinstance(content, bytes) else read_bytes(content)
    except OSError as error:
        raise RefusedError(error) from error
    archive.writestr(member, content)
    digest, size = hashlib.sha256(content).hexdigest(), str(len(content))
    return {"@id": name, "@type": "File", "contentSize": size, "sha256": digest}


def _crate(entries: Sequence[Mapping[str, str]], published: str) -> bytes:
    about = {"@id": CRATE, "@type": "CreativeWork", "about": {"@id": "./"}, "conformsTo": {"@id": CRATE_URL}}
    whole = {
        "@id": "./",
        "@type": "Dataset",
        "name": "Records of accelbench",
        "description": "Records of benchmarks, with raw samples, and the figures that were published of them",
        "datePublished": published,
        "hasPart": [{"@id": each["@id"]} for each in entries],
    }
    graph = {"@context": f"{CRATE_URL}/context", "@graph": [about, whole, *entries]}
    return (json.dumps(graph, indent=1) + "\n").encode()


def signature_of(bundle: Path) -> Path:
    """The file of the bundle's signature."""
    return bundle.with_name(f"{bundle.name}.sig")


def sign(bundle: Path, key: Path) -> None:
    """Signs a bundle with a private key, a PEM file of an elliptic curve. Raises UserError."""
    with _explained(f"--sign {key}"):
        from model_signing import signing

        signing.Config().use_elliptic_key_signer(private_key=key).sign(bundle, signature_of(bundle))


def check(bundle: Path, key: Path) -> None:
    """Raises UserError: the bundle is not signed with the private key of this public one."""
    with _explained(f"--key {key}: not signed with its private key"):
        from model_signing import verifying

        verifying.Config().use_elliptic_key_verifier(public_key=key).verify(bundle, signature_of(bundle))


@contextmanager
def _explained(what: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # of the library, of its parsers, or of the system
        install = f"model-signing is not installed: {how_to_install('signing')}"
        why = install if isinstance(error, ImportError) else str(error)[:200] or type(error).__name__
        raise UserError(f"{what} ({why})") from error
