"""Compares locks with advisories.toml: `python environments/check_advisories.py [LOCK ...]`; by default all locks.

Exits 1 if a lock pins a version with a known advisory that is not accepted. The list is part of the repository, since
`make lint` has to work without a network.
"""

import re
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
ADVISORIES = ROOT / "environments" / "advisories.toml"
OTHER = [ROOT / "docs/site.lock"]
LOCKS = [ROOT / "requirements.lock", *OTHER, *sorted((ROOT / "environments").glob("*.lock"))]
PIN = re.compile(r"^([\w.-]+)(?:\[[^]]*\])?==([^\s;\\]+)", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Advisory:
    """An entry of the list, which explains the attributes."""

    package: str
    affected: list[str]
    id: str
    reason: str
    source: str
    confirmed: bool
    accepted: str | None = None

    def affects(self, package: str, version: str) -> bool:
        """Whether the advisory is about this version of `package`."""
        if canonicalize_name(self.package) != canonicalize_name(package):
            return False
        return any(SpecifierSet(versions).contains(version, prereleases=True) for versions in self.affected)


def read_advisories(path: Path = ADVISORIES) -> list[Advisory]:
    """The entries of the list.

    Raises:
        TypeError: an entry lacks a value, or has one with an unknown name.
    """
    return [Advisory(**entry) for entry in tomllib.loads(path.read_text())["advisory"]]


def pins(lock: Path) -> list[tuple[str, str]]:
    """The packages of a lock with their versions. A package may have several versions, for several systems.

    Raises:
        ValueError: the file pins no package, so it is no lock.
    """
    found = PIN.findall(lock.read_text())
    if not found:
        raise ValueError(f"{lock}: pins no package")
    return found


def problems(lock: Path, advisories: Sequence[Advisory]) -> Iterator[str]:
    """Yields a line for each version in the lock with an advisory that is not accepted."""
    for package, version in pins(lock):
        for advisory in advisories:
            if advisory.accepted is None and advisory.affects(package, version):
                what = f"{package} {version} is affected by {advisory.id} ({' or '.join(advisory.affected)})"
                yield f"{lock.name}: {what}: {advisory.reason}; see {advisory.source}"


def main(words: Sequence[str]) -> int:
    """Prints what is wrong with the locks that the command line names. Returns the exit status."""
    locks = [Path(word) for word in words] or LOCKS
    advisories = read_advisories()
    found = [line for lock in locks for line in problems(lock, advisories)]
    print("\n".join(found) or f"{len(locks)} locks pin no version with a known advisory that is not accepted.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
