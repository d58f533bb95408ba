"""Inside a cell's own process: cell -> measurement, or how it failed.

`python -m accelbench.worker cell.json data_folder` runs a cell alone, where there is its framework and little else.
"""

import dataclasses
import faulthandler
import importlib
import json
import os
import re
import signal
import sys
import time
import traceback
from multiprocessing import connection
from pathlib import Path
from typing import Any

from accelbench.devices.memory import high_water_bytes
from accelbench.errors import UnsupportedError, UserError
from accelbench.judging.asked import judge
from accelbench.lifeline import end_with_starter
from accelbench.schema.ceilings import Ceilings
from accelbench.schema.cell import Cell
from accelbench.schema.measurement import Measurement
from accelbench.schema.serialize import load
from accelbench.schema.vocab import Device, Status

# What the frameworks say when memory ran out: torch's CPU allocator and XLA raise plain RuntimeErrors.
OUT_OF_MEMORY = ("can't allocate memory", "not enough memory", "out of memory", "RESOURCE_EXHAUSTED", "ALLOC_FAILED")


# What torch says of an operation that a device has not in a number format: no fault of the cell's. Of other formats,
# such as whole numbers, it says the same, and there it is one.
NOT_IMPLEMENTED = re.compile(
    r"not implemented for '(Half|BFloat16|Double)'|unsupported dtype (Half|BFloat16)|low precision dtypes not sup",
    re.IGNORECASE,
)


# The signal that has a cell's process tell where it is; Lightning takes SIGUSR1 for itself on a cluster.
STACK_DUMP_SIGNAL = signal.SIGUSR2


def main(
    request: dict[str, Any], answer: "connection.Connection[Any, Any]", stack: "connection.Connection[Any, Any]"
) -> None:
    """The cell process's entry.

    Args:
        request: `cell` (its JSON), `engine` (the module to run), `data_folder`, `log` (paths) and `environment` (the
            rank's variables); or `prober` (the module to run), `device` and `log`.
        answer: gets one JSON text: `status`, `reason`, `error`, `measurement`, `peak_host_bytes`, `until_boot_s`, when
            measuring ended, and `ended_s`, when the process did; or `ceilings`. A process that followed another one
            has no measurement.
        stack: gets the calls that the process is in, whenever it gets `STACK_DUMP_SIGNAL`: even in a library's code.
    """
    os.setsid()  # a group of its own, so that one signal ends it with its data workers
    end_with_starter(lambda: os.killpg(0, signal.SIGKILL))
    with open(request["log"], "ab") as log:
        os.dup2(log.fileno(), sys.stdout.fileno())
        os.dup2(log.fileno(), sys.stderr.fileno())
    faulthandler.register(STACK_DUMP_SIGNAL, file=stack.fileno(), all_threads=False)
    os.environ.update(request["environment"])
    outcome = _outcome(request)
    answered = {"peak_host_bytes": high_water_bytes(), "ended_s": time.monotonic(), **outcome}
    answer.send_bytes(json.dumps(answered).encode())
    answer.close()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # frameworks' exit handlers may hang, and there is nothing left to save


def _outcome(request: dict[str, Any]) -> dict[str, Any]:
    """How it ended, whatever happened."""
    try:
        return _probe(request) if "prober" in request else _measure(request)
    except UnsupportedError as error:
        return {"status": Status.skipped, "reason": str(error)}
    except BaseException as error:  # whatever it is, it is this cell's outcome
        return _failure(error)


def _probe(request: dict[str, Any]) -> dict[str, Any]:
    ceilings: Ceilings = importlib.import_module(request["prober"]).run(Device(request["device"]))
    return {"status": Status.ok, "ceilings": ceilings.to_json()}


def _measure(request: dict[str, Any]) -> dict[str, Any]:
    cell = load(Cell, request["cell"])
    engine = importlib.import_module(request["engine"])
    measurement: Measurement | None = engine.run(cell, Path(request["data_folder"]))
    if measurement is None:  # another process has it
        return {"status": Status.ok}
    defect = judge(cell, measurement)
    return {
        "status": Status.invalid if defect else Status.ok,
        "reason": defect,
        "measurement": dataclasses.asdict(measurement),
        **({"peak_host_bytes": measurement.peak_host_bytes} if measurement.peak_host_bytes is not None else {}),
        "until_boot_s": measurement.steady_boot_s[1] if measurement.steady_boot_s else None,
    }


def _failure(error: BaseException) -> dict[str, Any]:
    text = str(error)
    if isinstance(error, RuntimeError) and NOT_IMPLEMENTED.search(text):  # NotImplementedError is one
        return {"status": Status.skipped, "reason": text.strip().splitlines()[0]}
    out_of_memory = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    out_of_memory = out_of_memory or any(words in text for words in OUT_OF_MEMORY)
    status = Status.oom if out_of_memory else Status.failed
    kind = "" if isinstance(error, UserError) else f"{type(error).__name__}: "
    reason = (kind + text).strip().splitlines()
    return {
        "status": status,
        "reason": reason[0] if reason else type(error).__name__,
        "error": "".join(traceback.format_exception(error))[-4000:],
    }
