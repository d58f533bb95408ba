from dataclasses import replace

from accelbench.compare.record_sets import ComparedProcess
from accelbench.compare.sureness import compare_processes
from accelbench.schema.vocab import Status
from fakes import make_cell


def process(rate=100.0, at=0, status=Status.ok, environment=None, data=None, **changes):
    """A process that began `at` minutes after midnight."""
    return ComparedProcess(
        cell=make_cell(**changes),
        outcome=status,
        started_at=f"2026-11-20T{at // 60:02}:{at % 60:02}:00",
        environment=environment or {},
        data=data,
        rates=[rate] * 3 if status == Status.ok else [],
        was_beside_others=False,
    )


def compare(first, second):
    """Compares processes, given by the samples/s of their blocks."""
    sides = ([replace(process(), rates=blocks) for blocks in side] for side in (first, second))
    return compare_processes(*sides, anyway=True)
