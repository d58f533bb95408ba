"""The commits of a git repository, and worktrees of them: work that is not committed is in none."""

import hashlib
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
from accelbench.isolation.host_process import WITHOUT, without
from accelbench.lifeline import scratch_folder
from accelbench.project import PACKAGE, resolved
from accelbench.schema.cell import Cell

NO_CODE = (".md", ".rst")  # the endings of files that no program reads


def git(*words: object) -> str:
    """What git prints, without the hooks of the repository. Raises RefusedError: it fails, or is not there."""
    command = ["git", "-c", "core.hooksPath=/dev/null", "-c", "log.showSignature=false", *map(str, words)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", start_new_session=True, env=git_variables()
        )
    except OSError as error:
        raise RefusedError(error, "bisect: git") from error
    if done.returncode:
        where = "bisect" if words[0] == "rev-parse" else f"git {words[0]} {words[-1]}"
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

    def code(self) -> str:
        """A digest of its files but texts for people: commits with equal ones run alike."""
        # Of all files, not of the package that the cell names: that may import others of the repository, or read them.
        files = git("ls-tree", "-r", "-z", "--full-tree", self.hash).split("\0")
        return hashlib.sha256("\0".join(each for each in files if not each.endswith(NO_CODE)).encode()).hexdigest()


def commits(good: str, bad: str) -> list[Commit]:
    """GOOD, and the branch's commits after it up to BAD, the oldest first. Raises UserError: there are none."""
    # Only first parents: what a merge brings came at once, and its commits may lack what the branch had by then.
    git("rev-parse", "--show-toplevel")
    found = {}
    for name, word in (("GOOD", good), ("BAD", bad)):
        with suppress(UserError):
            found[name] = git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{word}^{{commit}}")
        if name not in found:
            raise UserError(f"{name}={word}: no revision of this repository")
    wanted = ("--first-parent", "--reverse", found["BAD"], "--not", f"{found['GOOD']}^@")
    lines = git("log", "--format=%H %s", *wanted).split("\n")
    if not lines[0].startswith(found["GOOD"]):
        raise UserError(f"GOOD={good}: the branch of BAD={bad} was never there (none of its first parents)")
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
            os.environ[WITHOUT] = str(self.top)
            sys.path[:] = without([str(each and self._moved(Path(each)) or each) for each in path], str(self.top))
            yield
        finally:
            os.chdir(here)
            os.environ.pop(WITHOUT, None)
            sys.path[:] = path

    def _moved(self, path: Path) -> Path | None:
        """The same folder of the worktree; None if it has none, as for a virtual environment in the repository."""
        path = resolved(path)
        moved = self.folder / path.relative_to(self.top) if path.is_relative_to(self.top) else None
        return moved if moved and moved.is_dir() and path != PACKAGE.parent else None

    def check(self, cell: Cell) -> None:
        """Raises UserError: what the cell names is not the commit's, or in the repository but not in the worktree."""
        homes = {
            f"{flag}={path}": resolved(min(source_files(flag, path).values(), default=self.top))
            for flag, path in cell.own_code.items()
        }
        others = {named: home for named, home in homes.items() if not home.is_relative_to(self.folder)}
        own = {named for named, home in others.items() if home.is_relative_to(self.top)}
        strays = [named for named in own if not others[named].is_relative_to(sys.prefix)]
        if strays or len(others) == len(homes):
            raise UserError(f"{(strays or list(others))[0]}: is not among the files of the commit")
