"""The commits of a git repository, and worktrees of them: work that is not committed is in none."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from accelbench.errors import RefusedError, UserError
from accelbench.grid.fingerprint import git_variables
from accelbench.grid.own_code import source_files
from accelbench.lifeline import scratch_folder
from accelbench.project import PACKAGE, resolved
from accelbench.schema.cell import Cell


def git(*words: object, folder: Path | None = None) -> str:
    """What git prints, without the hooks of the repository. Raises RefusedError: it fails, or is not there."""
    command = ["git", "-c", "core.hooksPath=/dev/null", "-c", "log.showSignature=false", *map(str, words)]
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            errors="replace",
            start_new_session=True,
            env=git_variables(),
        )
    except OSError as error:
        raise RefusedError(error, "bisect: git") from error
    if done.returncode not in (0, 2):  # 2: all that is left to `git bisect` was skipped
        where = f"git {words[0]} {words[-1]}"
        raise RefusedError(OSError(0, done.stderr.strip().removeprefix("fatal: ")), where)
    return done.stdout.rstrip("\n")


@dataclass(frozen=True)
class Commit:
    """A commit of the repository of the current folder."""

    hash: str
    subject: str

    @property
    def short(self) -> str:
        return self.hash[:8]


def commits(good: str, bad: str) -> list[Commit]:
    """GOOD, and the branch's commits after it up to BAD, the oldest first. Raises UserError: there are none."""
    # Only first parents: what a merge brings came at once, and its commits may lack what the branch had by then.
    hashes = []
    for name, word in (("GOOD", good), ("BAD", bad)):
        try:
            hashes.append(git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{word}^{{commit}}"))
        except RefusedError as error:
            raise UserError(f"{name}={word}: no revision of a git repository here") from error
    wanted = ("--first-parent", "--reverse", hashes[1], "--not", f"{hashes[0]}^@")
    lines = git("log", "--format=%H %s", *wanted).split("\n")
    if not lines[0].startswith(hashes[0]):
        raise UserError(f"GOOD={good}: is not an ancestor of BAD={bad} (by first parents)")
    if len(lines) < 2:
        raise UserError(f"GOOD={good}, BAD={bad}: are one commit")
    return [Commit(*line.split(" ", 1)) for line in lines]


class Worktree:
    """The files of a commit in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.top = folder, resolved(Path(git("rev-parse", "--show-toplevel")))

    @classmethod
    @contextmanager
    def of(cls, commit: Commit) -> Iterator["Worktree"]:
        """Removes it at the end, unless that comes by SIGKILL; `git worktree prune` removes what is left then."""
        with scratch_folder() as scratch:
            try:
                git("worktree", "add", "--quiet", "--detach", scratch / commit.short, commit.hash)
                yield cls(resolved(scratch / commit.short))
            finally:
                with suppress(UserError):
                    git("worktree", "remove", "--force", scratch / commit.short)

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Has the working folder and Python's path, also of hosts that start, in the worktree, not in the checkout."""
        here, path = Path.cwd(), sys.path[:]
        try:
            os.chdir(self._moved(here) or self.folder)
            sys.path[:] = [str(each and self._moved(Path(each)) or each) for each in path]
            yield
        finally:
            os.chdir(here)
            sys.path[:] = path

    def _moved(self, path: Path) -> Path | None:
        """The same folder of the worktree; None if it has none, as for a virtual environment in the repository."""
        path = resolved(path)
        moved = self.folder / path.relative_to(self.top) if path.is_relative_to(self.top) else None
        return moved if moved and moved.is_dir() and path != PACKAGE.parent else None

    def check(self, cell: Cell) -> None:
        """Raises UserError: nothing that the cell names is among the files of the commit."""
        for flag, path in cell.own_code.items():
            files = source_files(flag, path).values()
            if any(resolved(file).is_relative_to(self.folder) for file in files):
                return
        named = [f"{flag}={path}" for flag, path in cell.own_code.items()] or [f"model={cell.model.name}"]
        raise UserError(f"{named[0]}: is not among the files of the commit: name code of this repository")
