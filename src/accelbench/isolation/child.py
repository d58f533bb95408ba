"""Runs one request, such as a cell or a rank of a cell, in its own process: the child. Always sends an `Outcome`.

Requests and outcomes are sent as JSON:

sweep  -- Request -->  host  -- the same -->  child
sweep  <-- Outcome --  host  <-- Outcome --   child
"""

import faulthandler
import importlib
import json
import os
import re
import signal
import sys
import sysconfig
import tempfile
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from multiprocessing import connection
from pathlib import Path
from typing import Any, TypeVar

from accelbench.devices import allocators
from accelbench.devices.packages import INSTALLED
from accelbench.devices.proc import high_water_bytes
from accelbench.errors import UnsupportedError, UserError
from accelbench.lifeline import end_with_starter
from accelbench.project import PACKAGE
from accelbench.schema.ceilings import Ceilings
from accelbench.schema.cell import Cell, Precision, Status
from accelbench.schema.measurement import Ended, Measurement
from accelbench.schema.secrets import masked
from accelbench.schema.serialize import load, plain
from accelbench.schema.text import MAX_REASON, beginning, ending, is_out_of_memory, message_of, summary

T = TypeVar("T")
# The actions: measure a cell, export its network, probe its device's ceilings.
Do = StrEnum("Do", ["run", "export", "probe"])


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request for an action on a cell. A function in the module `engine` performs the action."""

    cell: Cell
    engine: str
    data_folder: str
    timeout_s: float  # seconds after which the host kills the request's processes
    do: Do = Do.run
    log: str = ""  # file for the output of the processes; `Hosts` sets it
    precisions: list[Precision] = field(default_factory=list)  # precisions to probe
    # name of an argument of the engine's `run` -> path: `exported` is the folder of the exported network, `weights` the
    # file for the trained weights, and `requests` the file for the raw times of requests
    paths: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Outcome(Ended):
    """The result of a request. The child sends it, and the host adds `system`. Only the first rank has a measurement.

    `reason` and `error` are safe to print, because *** replaces secrets in them. `reason` contains only the first
    `MAX_REASON` characters, and `error` only the last `MAX_TEXT`.
    """

    ceilings: Ceilings | None = None  # ceilings of a probed device
    # Peak resident memory of the process, up to the end of the measurement.
    peak_host_bytes: int | None = None

    def __post_init__(self) -> None:
        if self.reason is not None:
            object.__setattr__(self, "reason", beginning(summary(masked(self.reason)), MAX_REASON))
        if self.error is not None:
            object.__setattr__(self, "error", ending(masked(self.error)))


def encode(message: object) -> str:
    """Converts a message to JSON on one line."""
    return json.dumps(plain(message))


def decode(cls: type[T], text: str | bytes) -> T:
    """Reads a message that `encode` has written. `cls` is the type of the message."""
    return load(cls, json.loads(text))


# torch's messages if a device lacks an operation in a floating-point format. The cell is then skipped.
NOT_IMPLEMENTED = re.compile(
    r"not implemented for '(Half|BFloat16|Double)'|unsupported dtype (Half|BFloat16)|low precision dtypes not sup"
    r"|itensor_view_from_dense expects .*Double",  # inductor's freezing of convolutions in fp64
    re.IGNORECASE,
)
# Code in these folders belongs to Python, a library or accelbench.
LIBRARIES = (sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
# In another interpreter, the package is a link, so the package's path there differs from PACKAGE.
NOT_THE_USERS = (*LIBRARIES, str(PACKAGE), str(Path(__file__).parents[1]))
# On this signal, a child prints its call stack, even while a library's code runs. SIGUSR1 can't be used: Lightning
# handles it on a cluster.
STACK_DUMP_SIGNAL = signal.SIGUSR2
SAMPLED_S = 1.0  # seconds that a process waits, after its answer, for the host's last sample


def main(
    request: Request, environment: Mapping[str, str], host: "connection.Connection[bytes, bytes]"
) -> None:
    """The main function of the child. It sends the `Outcome` to the host process.

    `environment` contains variables that are added to the environment of this process.
    """
    os.setsid()  # starts a process group, so that one signal ends the data workers too
    end_with_starter(lambda: os.killpg(0, signal.SIGKILL))
    with open(request.log, "ab") as log:
        os.dup2(log.fileno(), sys.stdout.fileno())
        os.dup2(log.fileno(), sys.stderr.fileno())
    faulthandler.register(STACK_DUMP_SIGNAL, file=sys.stderr.fileno(), all_threads=False)
    os.environ.update(environment)
    # A new TMPDIR. User code may empty it, but must not remove the socket of the forkserver in the old one.
    os.environ["TMPDIR"] = tempfile.tempdir = tempfile.mkdtemp(prefix="cell-")
    answer = respond(request)
    if answer.peak_host_bytes is None:
        answer = replace(answer, peak_host_bytes=high_water_bytes())
    sys.stdout.flush()
    sys.stderr.flush()
    host.send_bytes(encode(answer).encode())
    host.poll(SAMPLED_S)  # returns when the host closes the pipe
    os._exit(0)  # skips the exit handlers of frameworks, which may hang


def respond(request: Request) -> Outcome:
    """Runs the action of `request`, and returns its outcome. If the action fails, the outcome contains the error."""
    cell = request.cell
    data_folder = Path(request.data_folder)
    answer = Outcome(status=Status.ok)
    try:
        engine: Any = importlib.import_module(request.engine)
        match request.do:
            case Do.run:
                answer = _measured(engine, request)
            case Do.export:
                engine.export(cell, data_folder, Path(request.paths["exported"]))
            case Do.probe:
                answer = replace(answer, ceilings=engine.run(cell.device, request.precisions))
    except UnsupportedError as error:
        return Outcome(status=Status.skipped, reason=message_of(error))
    except BaseException as error:  # also SystemExit, which user code may raise
        return _failure(error, has_own_code=bool(cell.own_code))
    return answer


def _measured(engine: Any, request: Request) -> Outcome:
    """Measures a cell with its engine, and checks the measurement."""
    options: dict[str, Any] = {name: Path(path) for name, path in request.paths.items()}
    measurement: Measurement | None = engine.run(request.cell, Path(request.data_folder), **options)
    if measurement is None:  # only the first rank has a measurement
        return Outcome(status=Status.ok)
    if (allocator := allocators.running()) is not None:
        measurement = replace(measurement, allocator=allocator.word, allocator_library=allocator.library)
    try:
        load(Measurement, plain(measurement))
    except (TypeError, ValueError) as error:  # such as a TypeError because of a NumPy number
        return Outcome(status=Status.failed, reason=f"the engine's measurement is not valid: {error}")
    # The sweep decides later whether the numbers are invalid or disturbed.
    return Outcome(status=Status.ok, measurement=measurement, peak_host_bytes=measurement.peak_host_bytes)


def _failure(error: BaseException, *, has_own_code: bool) -> Outcome:
    """Returns the outcome of a request that raised `error`, with the traceback.

    If the cell has code of the user, and the traceback contains calls in it, the outcome contains only these calls.
    """
    text = message_of(error)
    # NotImplementedError is a RuntimeError.
    if isinstance(error, RuntimeError) and NOT_IMPLEMENTED.search(text):
        return Outcome(status=Status.skipped, reason=text)
    is_users = isinstance(error, UserError)
    reason = text
    if not is_users:
        reason = ": ".join(filter(None, [type(error).__name__, text]))
    calls = []
    if has_own_code:
        calls = users_calls(error)
    reason = "; ".join([summary(reason), *getattr(error, "__notes__", [])])
    lines = traceback.format_exception(error)
    if calls:  # shows only the user's calls, which a traceback through frameworks would hide
        lines = [lines[0], *traceback.format_list(calls), *traceback.format_exception_only(error)]
        if not is_users:
            reason = f"{calls[-1].filename}:{calls[-1].lineno}: {reason}"
    error_text = "".join(lines)
    if is_out_of_memory(error):
        return Outcome(status=Status.oom, reason=reason, error=error_text, user_error=is_users)
    return Outcome(status=Status.failed, reason=reason, error=error_text, user_error=is_users or bool(calls))


def is_the_users(path: str) -> bool:
    """Returns True if the file at `path` is the user's: it does not belong to Python, a library or accelbench."""
    is_installed = not INSTALLED.isdisjoint(Path(path).parts)
    return not (path.startswith("<") or is_installed or any(map(Path(path).is_relative_to, NOT_THE_USERS)))


def users_calls(error: BaseException) -> list[traceback.FrameSummary]:
    """Returns those calls of the traceback that are in the user's files. The innermost call is the last."""
    calls = [frame for frame in traceback.extract_tb(error.__traceback__) if is_the_users(frame.filename)]
    for call in calls:
        if Path(call.filename).is_relative_to(Path.cwd()):
            call.filename = os.path.relpath(call.filename)
    return calls
