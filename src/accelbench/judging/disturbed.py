"""Whether other load took the cores that a cell needed: then its numbers say nothing about the cell."""

import os
from statistics import fmean

from accelbench.errors import UserError
from accelbench.judging.load import taken
from accelbench.judging.warnings import MAX_OTHERS_PERCENT
from accelbench.schema.record import Record
from accelbench.schema.vocab import RETRIED, SHARE_ONE_CPU, Status

DISTURBED = "disturbed"  # what is shown in place of the status `ok`
BUSY, ALLOWED = "busy", "allowed"  # the entry of a record's environment where no cell counts as disturbed
# On a machine that is never quiet, such as a shared one that runs tests, `allowed` has cells count although other
# programs take their cores, and nothing waits. A variable, since this is the machine's nature and no cell's or suite's.
BUSY_VARIABLE = "ACCELBENCH_BUSY"


def is_allowed() -> bool:
    """Whether cells count although the machine is busy. Raises UserError: the variable has an unknown value."""
    value = os.environ.get(BUSY_VARIABLE)
    if value and value != ALLOWED:
        raise UserError(
            f"{BUSY_VARIABLE}={value}: unknown. {ALLOWED} has cells count although other programs take their cores; "
            "leave it unset to have such cells repeated"
        )
    return value == ALLOWED


def reason(record: Record) -> str | None:
    """What disturbed an ok cell, such as `others used 1.3 of 2 cores`; None if nothing did, or nothing tells.

    The numbers of a disturbed cell are not published.
    """
    measured, system = record.measurement, record.system
    if record.status != Status.ok or record.environment.get(BUSY) == ALLOWED or measured is None or system is None:
        return None
    if system.busy_gpus is not None:
        return system.busy_gpus
    cores = system.num_cores or record.environment.get("machine", {}).get("num_threads")
    threads = (measured.threads or 0) * record.cell.num_processes if record.cell.device in SHARE_ONE_CPU else 0
    return taken(system, measured.steady_boot_s, cores, threads)


def was_beside_others(record: Record) -> bool:
    """Whether other processes used the cores while the record's numbers were measured, though few of them perhaps."""
    name, measured = "other_cpu_utilization_percent", record.measurement
    percents = record.system.within(name, measured.steady_boot_s) if record.system and measured else []
    return bool(percents) and fmean(percents) > MAX_OTHERS_PERCENT


def is_retried(record: Record) -> bool:
    """Whether `retry=failed` measures the cell again."""
    return record.status in RETRIED or reason(record) is not None
