"""Brings records together: of several machines, of a cluster's nodes, or from a bucket."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from accelbench.errors import UserError, WriteError
from accelbench.project import COMPARISON, PLAN, RACE, RECORDS, SAFETENSORS, shown
from accelbench.schema import plan_file
from accelbench.schema.plan_file import PlanFile
from accelbench.schema.serialize import PREFIX, SUFFIX
from accelbench.schema.text import one_line

OTHERS = (f"*{SAFETENSORS}", RACE, COMPARISON)  # the files beside records


@dataclass(kw_only=True)
class Merged:
    """What a merge did.

    Attributes:
        num_new: records that were added.
        num_same: records that were there already.
        conflicts: a line for each file of which another one of its name was there, which stayed.
        problems: a line for each file and folder that could not be read, and was left out.
    """

    num_new: int = 0
    num_same: int = 0
    conflicts: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def merge(sources: Sequence[str], into: Path) -> Merged:
    """Adds to `into` every record that it lacks, in folders of the same names; safe to repeat. Nothing is overwritten.

    A record's name holds its settings and what else its numbers depend on: of two records of one name, each is a
    measurement of the same cell on the same machine with the same code, and the one that is there stays.

    Args:
        sources: folders of records or of sweeps, or addresses that fsspec reads, such as `s3://bucket/results`.
        into: the folder; made if it is not there.

    Raises:
        UserError: a source holds no records, or can't be read, or lies in `into`; or `into` can't be written.
    """
    done = Merged()
    for source in sources:
        with _at_hand(source) as folder:
            if folder.resolve() == into.resolve():
                raise UserError(f"{source}: is the folder that --into names")
            sweeps = plan_file.sweep_folders(folder)
            if not sweeps:
                raise UserError(f"{source}: holds no records and no {PLAN}")
            for sweep, refused in sweeps.items():
                if refused is not None:
                    done.problems.append(one_line(str(refused)))
                    continue
                name = sweep.relative_to(folder) if sweep != folder else Path(_last_part(source))
                try:
                    _merge_sweep(sweep, into / name, source, done)
                except OSError as error:
                    raise WriteError(shown(into), error) from error
    os.sync()  # once, since once for each of a hundred thousand files takes many minutes
    return done


def _last_part(source: str) -> str:
    return source.rstrip("/").rpartition("/")[2] if "://" in source else Path(source).resolve().name


@contextmanager
def _at_hand(source: str) -> Iterator[Path]:
    """The folder, or a copy of what lies at an address."""
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


def _merge_sweep(source: Path, target: Path, named: str, done: Merged) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for path in sorted(source.glob(RECORDS)):
        content = path.read_bytes()
        if not (content.startswith(b"{") and content.rstrip().endswith(b"}")):
            done.problems.append(f"{path.name} of {named}: not a whole record")
            continue
        is_new = _add(content, target / path.name)
        done.num_new += is_new
        if not is_new and (target / path.name).read_bytes() == content:
            done.num_same += 1
        elif not is_new:
            done.conflicts.append(f"{shown(target / path.name)}: was measured again in {named}; the one here stays")
    for path in (path for pattern in OTHERS for path in sorted(source.glob(pattern))):
        content = path.read_bytes()
        if not _add(content, target / path.name) and (target / path.name).read_bytes() != content:
            done.conflicts.append(f"{shown(target / path.name)}: differs in {named}; the one here stays")
    plan_file.write_plan(_joined(source, target, done), target)


def _joined(source: Path, target: Path, done: Merged) -> PlanFile:
    """The plan of both folders, with a line for each record: two machines may have measured the same cell."""
    plans = [_plan(folder, done) for folder in (target, source)]
    cells = {wanted.record_name: wanted for plan in plans for wanted in plan.cells}
    head = plans[0] if plans[0].cells else plans[1]
    return replace(head, cells=list(cells.values()))


def _plan(folder: Path, done: Merged) -> PlanFile:
    """The folder's plan, and the records that it does not name."""
    if not os.path.lexists(folder / PLAN):
        return plan_file.plan_of_records(folder)
    try:
        return plan_file.read_plan(folder)
    except UserError as error:
        done.problems.append(f"{one_line(str(error))}; all records beside it are taken")
        return plan_file.plan_of_records(folder)


def _add(content: bytes, path: Path) -> bool:
    """Writes the file whole, if there is none of its name; returns whether there was none."""
    if path.exists():
        return False
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=PREFIX, suffix=SUFFIX) as file:
        file.write(content)
        file.flush()
        os.fchmod(file.fileno(), 0o644)
        try:
            os.link(file.name, path)
        except FileExistsError:
            return False
    return True
