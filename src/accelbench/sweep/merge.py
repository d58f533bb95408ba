"""Merges records of several machines, of a cluster's nodes, or from a bucket."""

import contextlib
import os
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from accelbench.errors import RefusedError, UserError, writing_errors
from accelbench.project import COMPARISON, PLAN, RACE, RECORDS, REQUESTS, SAFETENSORS, resolved, shown
from accelbench.schema import plan_file
from accelbench.schema.plan_file import PlanFile
from accelbench.schema.serialize import PREFIX, SUFFIX, is_missing, loads, open_regular, read_bytes, writing
from accelbench.schema.text import one_line
from accelbench.sweep.context import set_aside

Part = tuple[Path, str]  # the folder of a sweep, and the name of its source


@dataclass(kw_only=True)
class Merged:
    """The results of a merge."""

    num_new: int = 0  # records that were added
    num_same: int = 0  # records that were there already
    conflicts: list[str] = field(
        default_factory=list
    )  # a line for each file that differs from a file of its name in `into`, which stays
    problems: list[str] = field(default_factory=list)  # a line for each file and folder that could not be read


def merge(sources: Sequence[str], into: Path) -> Merged:
    """Adds to `into` every record that `into` lacks, in folders with the same names. Overwrites no record.

    Records with the same name have the same cell and code, and ran on the same machine or on equal machines. `sources`
    are folders of records or of sweeps, or addresses that fsspec reads, such as `s3://bucket/results`.

    Raises UserError if a source has no records, can't be read, contains `into` or lies in it, or if a plan in `into`
    can't be read or written.
    """
    done = Merged()
    with contextlib.ExitStack() as stack:
        parts: dict[Path, list[Part]] = defaultdict(list)
        for source in sources:
            folder = stack.enter_context(_at_hand(source))
            inner, outer = resolved(into), resolved(folder)
            if inner.is_relative_to(outer) or outer.is_relative_to(inner):
                raise UserError(f"{source}: contains the folder of --into, or lies in it: name another folder")
            sweeps = plan_file.sweep_folders(folder)
            if not sweeps:
                raise UserError(f"{source}: holds no records and no {PLAN}")
            last = source.rstrip("/").rpartition("/")[2] if "://" in source else Path(source).resolve().name
            for sweep in sweeps:
                name = sweep.relative_to(folder) if sweep != folder else last
                parts[into / name].append((sweep, source))
        for target, of_target in parts.items():  # folder by folder, so that only one plan is in memory
            with writing_errors(shown(target)):
                merge_into(target, of_target, done)
    return done


@contextlib.contextmanager
def _at_hand(source: str) -> Iterator[Path]:
    if "://" not in source:
        if not Path(source).is_dir():
            raise UserError(f"{source}: no such folder")
        yield Path(source)
        return
    import fsspec  # here, since few merges need it

    with tempfile.TemporaryDirectory(prefix="accelbench-") as folder:
        try:
            system, path = fsspec.url_to_fs(source)
            system.get(path.rstrip("/") + "/", f"{folder}/", recursive=True)
        except ImportError as error:
            raise UserError(f"{source}: {error}") from error
        except Exception as error:  # the errors of storage services have no common base class
            raise UserError(f"{source}: can't be read ({one_line(str(error))})") from error
        yield Path(folder)


def merge_into(target: Path, parts: Sequence[Part], done: Merged) -> None:
    """Adds the records and plans of `parts` to the folder `target`, and counts them in `done`."""
    # This comes before any record is added. A plan that can't be read is not overwritten. If a folder has no plan, its
    # records are the plan.
    plan = None if is_missing(target / PLAN) else plan_file.read_plan(target)
    cells = {wanted.record_name: wanted for wanted in plan.cells} if plan else {}
    for folder, _ in parts:
        theirs = _plan_of_source(folder, done)
        plan = plan or theirs
        cells |= {wanted.record_name: wanted for wanted in theirs.cells}  # two machines may share a cell
    target.mkdir(parents=True, exist_ok=True)
    for folder, source in parts:
        for path in sorted(folder.glob(RECORDS)):
            _merge_record(path, target, source, done)
        for name in (COMPARISON, RACE):  # the order of interleaved processes, and of a search
            if not is_missing(folder / name):
                try:
                    content = read_bytes(folder / name)
                    if is_missing(target / name):
                        (target / name).write_bytes(content)
                    elif read_bytes(target / name) != content:
                        done.conflicts.append(f"{shown(target / name)}: differs from that in {source}; this one stays")
                except (OSError, UserError, ValueError) as error:
                    done.problems.append(f"{name} of {source}: not readable ({one_line(str(error))})")
    if plan is not None:
        plan_file.write_plan(replace(plan, cells=list(cells.values())), target)


def _plan_of_source(folder: Path, done: Merged) -> PlanFile:
    if not is_missing(folder / PLAN):
        try:
            return plan_file.read_plan(folder)
        except RefusedError:
            raise
        except UserError as error:
            done.problems.append(f"{one_line(str(error))}; so every record in this folder counts as planned")
    return plan_file.plan_of_records(folder)


def _merge_record(path: Path, target: Path, source: str, done: Merged) -> None:
    there = target / path.name
    try:
        content = _content(path)
    except (OSError, RefusedError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else one_line(str(error))
        done.problems.append(f"{path.name} of {source}: not a readable record ({why})")
        return
    present = None
    if not is_missing(there):
        try:
            present = _content(there)
        except (OSError, ValueError):  # the machine stopped while the file was written, or it is no file
            set_aside(there)
    if present is None:
        with tempfile.NamedTemporaryFile(dir=target, prefix=PREFIX, suffix=SUFFIX) as file:
            file.write(content)
            file.flush()
            os.fchmod(file.fileno(), 0o644)
            try:
                os.link(file.name, there)
            except FileExistsError:  # another process of this merge, or another merge, was faster
                _merge_record(path, target, source, done)
                return
        done.num_new += 1
    elif present == content:
        done.num_same += 1
    else:
        which = "another measurement of this cell, on this machine or an equal one"
        done.conflicts.append(f"{shown(there)}: {source} has {which}; the record here stays")
        return
    for ending in (SAFETENSORS, REQUESTS):
        if problem := _add_file(path.with_suffix(ending), target):
            done.problems.append(f"{source}: left out {problem}")


def _content(path: Path) -> bytes:
    """Returns a record's file as it is. Raises ValueError if the file is not JSON."""
    content = read_bytes(path)
    loads(content)
    return content


def _add_file(path: Path, target: Path) -> str:
    """Copies a file that lies beside a record. Returns the problem if the disk is full, else an empty text."""
    if not path.is_file() or (target / path.name).exists():
        return ""
    with open_regular(path) as file:
        size, room = os.fstat(file.fileno()).st_size, shutil.disk_usage(target).free
        if size > room:
            return f"{path.name}: {size / 1e9:,.0f} GB, but there is room for only {room / 1e9:,.0f} GB"
        with writing(target / path.name) as copy, copy.open("wb") as written:
            shutil.copyfileobj(file, written)
    return ""
