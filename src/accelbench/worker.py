"""Inside a cell's own process: cell -> measurement, or how it failed.

`python -m accelbench.worker cell.json data_folder` runs a cell alone, where there is its framework and little else.
"""

import argparse
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
from collections.abc import Sequence
from multiprocessing import connection
from pathlib import Path
from typing import Any

from accelbench.ceilings import Ceilings
from accelbench.cell import Cell
from accelbench.data.manifest import FILE as MANIFEST
from accelbench.engines.registry import SUBSTITUTING, host_spec
from accelbench.errors import UnsupportedError, UserError
from accelbench.lifeline import end_with_starter
from accelbench.measurement import Measurement
from accelbench.memory import high_water_bytes
from accelbench.vocab import Device, Status

# What the frameworks say when memory ran out: torch's CPU allocator and XLA raise plain RuntimeErrors.
OUT_OF_MEMORY = ("can't allocate memory", "not enough memory", "out of memory", "RESOURCE_EXHAUSTED", "ALLOC_FAILED")


# What torch says of an operation that a device has not in a number format: no fault of the cell's. Of other formats,
# such as whole numbers, it says the same, and there it is one.
NOT_IMPLEMENTED = re.compile(
    r"not implemented for '(Half|BFloat16|Double)'|unsupported dtype (Half|BFloat16)|low precision dtypes not sup",
    re.IGNORECASE,
)


# The signal that has a cell's process tell where it is; Lightning takes SIGUSR1 for itself on a cluster.
WHERE = signal.SIGUSR2


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
        stack: gets the calls that the process is in, whenever it gets the signal `WHERE`: even in a library's code.
    """
    os.setsid()  # a group of its own, so that one signal ends it with its data workers
    end_with_starter(lambda: os.killpg(0, signal.SIGKILL))
    with open(request["log"], "ab") as log:
        os.dup2(log.fileno(), sys.stdout.fileno())
        os.dup2(log.fileno(), sys.stderr.fileno())
    faulthandler.register(WHERE, file=stack.fileno(), all_threads=False)
    os.environ.update(request["environment"])
    outcome = _outcome(request)
    answered = {"peak_host_bytes": high_water_bytes(), "ended_s": time.monotonic(), **outcome}
    answer.send_bytes(json.dumps(answered).encode())
    answer.close()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # frameworks' exit handlers may hang, and there is nothing left to save


def alone(words: Sequence[str]) -> int:
    """Runs one cell in this process, which has imported no framework yet, and prints its outcome as JSON.

    Of several ranks, as `torchrun` starts them, the first prints it; the others say why they failed, if they did.

    Args:
        words: those of the command line.

    Returns:
        The exit status: 0 where the cell is ok or skipped, else 1.
    """
    parser = argparse.ArgumentParser(prog="python -m accelbench.worker", description="Runs one cell in this process.")
    parser.add_argument("cell", type=Path, help="its JSON: a line of `accelbench plan --json ...`, or a record")
    parser.add_argument("data_folder", type=Path, help="a prepared data set, such as data/mnist")
    chosen = parser.parse_args(words)
    try:
        values = json.loads(chosen.cell.read_text())
        cell = Cell.from_json(values.get("cell", values))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        parser.error(f"{chosen.cell}: no readable cell ({type(error).__name__}: {error})")
    if not (chosen.data_folder / MANIFEST).exists():
        parser.error(f"{chosen.data_folder}: no prepared data set (it has no {MANIFEST})")
    spec = host_spec(cell)
    for name in SUBSTITUTING:
        os.environ.pop(name, None)
    os.environ.update(spec.environment)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever a library prints
    outcome = _outcome({"cell": cell.to_json(), "engine": spec.engine, "data_folder": str(chosen.data_folder)})
    if outcome["status"] != Status.ok or "measurement" in outcome:
        answers.write(json.dumps(outcome) + "\n")
    answers.close()
    return 0 if outcome["status"] in (Status.ok, Status.skipped) else 1


def judge(cell: Cell, measurement: Measurement) -> str | None:
    """Why the numbers are not those of `cell`; None where they are."""
    for word in ("device", "precision"):
        asked, ran = getattr(cell, word), getattr(measurement, word)
        if asked != ran:
            return f"asked for {word} {asked}, but {ran} ran"
    if cell.devices != measurement.num_devices:
        return f"asked for {cell.devices} devices, but {measurement.num_devices} ran"
    return "; ".join(measurement.defects) or None


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
    cell = Cell.from_json(request["cell"])
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


if __name__ == "__main__":
    sys.exit(alone(sys.argv[1:]))
