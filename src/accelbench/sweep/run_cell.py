"""One planned cell -> its record."""

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from accelbench.grid.plan import Planned
from accelbench.isolation.hosts import Hosts
from accelbench.isolation.messages import Outcome
from accelbench.schema.conditions import Data
from accelbench.schema.record import Record
from accelbench.schema.secrets import without_secrets
from accelbench.schema.vocab import Status


def run_cell(
    planned: Planned,
    hosts: Hosts,
    data: Data,
    data_folder: Path,
    environment: Mapping[str, Any],
    sweep_id: str,
    failure: Outcome | None = None,
    weights: Path | None = None,
) -> Record:
    """Runs the cell in a process of its own, or skips it with its reason; the record says what happened.

    Args:
        planned: the cell.
        hosts: starts its process.
        data: the data set that the cell reads.
        data_folder: where that data set is.
        environment: the fingerprint and git's state, kept in the record.
        sweep_id: kept in the record.
        failure: how the check of its network failed, so that it is not run.
        weights: the file that gets the trained weights; None: they are not saved.
    """
    started_at = datetime.now(UTC).isoformat(timespec="milliseconds")
    start = time.perf_counter()
    if planned.skip_reason is not None:
        outcome = Outcome(status=Status.skipped, reason=planned.skip_reason)
    elif failure is not None:
        outcome = failure
    else:
        outcome = hosts.run(planned.cell, data_folder, weights)
    return Record(
        cell=planned.cell,
        label=planned.label,
        identity=planned.identity,
        status=outcome.status,
        reason=outcome.reason,
        error=outcome.error,
        user_error=outcome.user_error,
        started_at=started_at,
        wall_s=time.perf_counter() - start,
        environment=without_secrets(environment),
        sweep_id=sweep_id,
        data=without_secrets(data),
        measurement=without_secrets(outcome.measurement),
        system=outcome.system,
    )
