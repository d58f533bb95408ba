"""Waiting for jobs: shows each record when its job has left it, and brings records together on the way."""

import time
from collections import Counter
from pathlib import Path

from rich.console import Console

from accelbench.grid.evidence import read_evidence
from accelbench.grid.fingerprint import fingerprint
from accelbench.grid.prepare import Prepared
from accelbench.project import RECORDS
from accelbench.schema.record import Record, read_all
from accelbench.sweep.cluster import collecting
from accelbench.sweep.cluster.engine import ClusterEngine
from accelbench.sweep.cluster.shared_state import Round, read_part
from accelbench.sweep.delivery import Delivery
from accelbench.sweep.prober import PROBING_ENGINE
from accelbench.sweep.progress import SweepProgress

POLL_S = 2.0
MERGE_S = 30.0  # between two merges on the way, at least; ten times as long as one takes
SHARE = 10


class JobsProgress(SweepProgress):
    """The progress of several jobs: says how many jobs are in which state instead of the time left."""

    def show_states(self, states: Counter[str]) -> None:
        """Shows how many jobs are in which state."""
        words = ", ".join(f"{num} {state.lower()}" for state, num in states.most_common())
        self.bar.update(self.task, description=f"jobs: {words}")


class Watch:
    """Waits for the jobs of a round.

    Args:
        ready: the prepared sweep.
        spread: the round.
        folder: of the sweep.
        engine: whose jobs they are.
        console: where the progress is shown.
        delivery: gets the records that come while it waits.
    """

    def __init__(
        self, ready: Prepared, spread: Round, folder: Path, engine: ClusterEngine, console: Console, delivery: Delivery
    ) -> None:
        self._ready, self._spread, self._folder = ready, spread, folder
        self._engine, self._console, self._delivery = engine, console, delivery
        self._seen = {path.name for path in folder.glob(RECORDS)}
        self._merge_at = time.monotonic() + MERGE_S

    def run(self) -> None:
        """Returns when no job runs or is to run."""
        jobs = self._spread.jobs()
        parts = [read_part(path) for path in self._spread.folder.glob("part-*.json")]
        wanted = {cell.id for part in parts for cell in part.cells}
        todo = [item for item in self._ready.planned if item.cell.id in wanted]
        machine = fingerprint(PROBING_ENGINE)["machine"]
        evidence = read_evidence(self._ready.place.root, machine, set())
        if len(wanted) > 1:
            self._delivery.open()
        progress = JobsProgress(self._console, todo, evidence)
        with progress:
            while True:
                states = self._engine.states(jobs)  # before the records: a job leaves none after it has ended
                for record in self._new():
                    progress.finish(record)
                    self._delivery.add(record)
                self._delivery.deliver()
                if not states:
                    return
                progress.show_states(Counter(states.values()))
                if time.monotonic() > self._merge_at:
                    self.collect()
                time.sleep(POLL_S)

    def collect(self) -> None:
        """Brings the records that are there into the sweep's folder."""
        start = time.monotonic()
        collecting.collect(self._spread, self._folder)
        self._merge_at = time.monotonic() + max(MERGE_S, SHARE * (time.monotonic() - start))

    def _new(self) -> list[Record]:
        paths = [path for source in self._spread.sources() for path in source.glob(RECORDS)]
        new = [path for path in paths if path.name not in self._seen]
        self._seen |= {path.name for path in new}
        return sorted(read_all(new), key=lambda record: record.started_at)
