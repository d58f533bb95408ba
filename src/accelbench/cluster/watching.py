"""Waiting for jobs: shows each record when its job has left it, and brings records together on the way."""

import math
import time
from collections import Counter
from collections.abc import Mapping

from accelbench.cluster.engine import UNKNOWN, ClusterEngine
from accelbench.cluster.shared_state import Round
from accelbench.grid.evidence import read_evidence
from accelbench.grid.fingerprint import fingerprint
from accelbench.grid.prepare import Prepared
from accelbench.project import RECORDS
from accelbench.schema.record import Record, read_all
from accelbench.sweep.context import SweepContext
from accelbench.sweep.delivery import Delivery
from accelbench.sweep.prober import PROBING_ENGINE
from accelbench.sweep.progress import SweepProgress

POLL_S = 2.0
ASK_S = 10.0  # between two questions to the scheduler, while cells have no record
SILENCE_S = 60.0  # without an answer of the scheduler, after which a warning is shown
MERGE_S = 30.0  # between two merges on the way, at least; ten times as long as one takes
SHARE = 10


class Watch:
    """Waits for the jobs of a round, and delivers the records that come meanwhile."""

    def __init__(
        self, context: SweepContext, ready: Prepared, spread: Round, engine: ClusterEngine, delivery: Delivery
    ) -> None:
        self._context, self._ready, self._spread = context, ready, spread
        self._engine, self._delivery = engine, delivery
        self._seen = {path.name for path in context.folder.glob(RECORDS)}
        self._merge_at = time.monotonic() + MERGE_S
        self._states_now: Mapping[str, str] = {}
        self._ask_at = 0.0
        self._warn_at = time.monotonic() + SILENCE_S

    def run(self) -> None:
        """Returns when no job runs or is to run."""
        wanted = self._spread.cell_ids()
        todo = [item for item in self._ready.planned if item.cell.id in wanted]
        evidence = read_evidence(self._context.place.root, fingerprint(PROBING_ENGINE)["machine"], set())
        if len(wanted) > 1:
            self._delivery.open()
        with SweepProgress(self._context.console, todo, evidence) as progress:
            while True:
                states = self._states(is_whole=not wanted)  # before the records: a job leaves none after it has ended
                for record in self._new():
                    progress.finish(record)
                    self._delivery.add(record)
                    wanted.discard(record.cell.id)
                self._delivery.deliver()
                if not states:
                    return
                words = ", ".join(f"{num} {state}" for state, num in Counter(states.values()).most_common())
                progress.bar.update(progress.task, description=f"jobs: {words}")
                if time.monotonic() > self._merge_at:
                    self.collect()
                time.sleep(POLL_S)

    def collect(self) -> None:
        """Brings the records that are there into the sweep's folder."""
        start = time.monotonic()
        self._spread.collect(self._context.folder)
        self._merge_at = time.monotonic() + max(MERGE_S, SHARE * (time.monotonic() - start))

    def _states(self, is_whole: bool) -> Mapping[str, str]:
        """The states of the jobs, not older than `ASK_S`; those of now if each cell has its record."""
        now = time.monotonic()
        if now < self._ask_at and not is_whole:
            return self._states_now
        self._states_now = self._engine.states(self._spread.jobs(), self._spread.job_name)
        self._ask_at = time.monotonic() + ASK_S
        if set(self._states_now.values()) != {UNKNOWN}:
            self._warn_at = now + SILENCE_S
        elif now > self._warn_at:
            words = f"{self._engine.name} has not answered for {SILENCE_S:.0f} s: still waiting for its jobs"
            self._context.say(words, "yellow")
            self._warn_at = math.inf  # once, until it answers
        return self._states_now

    def _new(self) -> list[Record]:
        paths = [path for source in self._spread.sources() for path in source.glob(RECORDS)]
        new = [path for path in paths if path.name not in self._seen]
        self._seen |= {path.name for path in new}
        return sorted(read_all(new), key=lambda record: record.started_at)
