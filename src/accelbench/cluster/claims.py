"""Claims: which job measures which cell, so that no two jobs measure one.

A claim is a file `<cell id>.<number>` that names its job. It is made whole, by linking a written file, which fails if
there is one: as O_EXCL does, but nobody ever sees a claim without its job, even if the job is killed meanwhile. Claims
are never changed or deleted: whoever takes over the cell of a job that has ended makes the claim with the next number,
and one of several who try gets it. The claim with the highest number counts.
"""

import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path


class Claims:
    """The claims of one job on the cells of a round, in a folder that the jobs share."""

    def __init__(
        self,
        folder: Path,
        job: str,
        is_alive: Callable[[str], bool],  # whether the job of that name may still measure, or be started again
        is_done: Callable[[str, str], bool],  # whether the job of that name has left the record of the cell of that id
    ) -> None:
        self._folder, self._job, self._is_alive, self._is_done = folder, job, is_alive, is_done
        folder.mkdir(parents=True, exist_ok=True)

    def turns(self, cell_ids: Sequence[str]) -> Iterator[str]:
        """Yields the ids of the cells that this job is to measure, each after its claim was made.

        The caller leaves a cell's record before it asks for the next one. Ends when every cell has its record or is
        claimed by another job that is alive.
        """
        has_taken = True
        while has_taken:
            has_taken = False
            for cell_id in cell_ids:
                if self._take(cell_id):
                    has_taken = True
                    yield cell_id

    def owners(self, cell_id: str) -> list[str]:
        found: list[str] = []
        while (path := self._path(cell_id, len(found))).exists():
            found.append(path.read_text())
        return found

    def _take(self, cell_id: str) -> bool:
        owners = self.owners(cell_id)
        if not owners:
            return self._make(cell_id, 0)
        if owners[-1] != self._job and self._is_alive(owners[-1]):
            return False
        # Looked for after its job was seen to have ended: it leaves no record any more.
        if any(self._is_done(owner, cell_id) for owner in owners):
            return False
        return owners[-1] == self._job or self._make(cell_id, len(owners))

    def _make(self, cell_id: str, number: int) -> bool:
        """Makes the claim; False if another job has."""
        written = self._folder / f".{self._job}-{secrets.token_hex(8)}"
        written.write_text(self._job)
        try:
            os.link(written, self._path(cell_id, number))
        except FileExistsError:
            # A server of NFS whose answer was lost is asked again, and then finds the link that it has made.
            return written.stat().st_nlink == 2
        finally:
            written.unlink()
        return True

    def _path(self, cell_id: str, number: int) -> Path:
        return self._folder / f"{cell_id}.{number}"
