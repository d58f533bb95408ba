"""The process of one cell (or one of its ranks), or of one probe: request -> answer, whatever happens."""

import faulthandler
import importlib
import os
import re
import signal
import sys
import sysconfig
import tempfile
import time
import traceback
from collections.abc import Mapping
from dataclasses import replace
from multiprocessing import connection
from pathlib import Path

from accelbench.devices import allocators
from accelbench.devices.proc import high_water_bytes
from accelbench.errors import UnsupportedError, UserError
from accelbench.isolation.messages import CellRequest, ProbeRequest, Reply, Request, encode
from accelbench.lifeline import end_with_starter
from accelbench.measuring import witness
from accelbench.project import PACKAGE
from accelbench.schema.measurement import Measurement
from accelbench.schema.serialize import load, plain
from accelbench.schema.text import message_of
from accelbench.schema.vocab import Allocator, Status

# Parts of the frameworks' messages when memory runs out. torch's CPU allocator and XLA raise plain RuntimeErrors.
OUT_OF_MEMORY = ("can't allocate memory", "not enough memory", "out of memory", "RESOURCE_EXHAUSTED", "ALLOC_FAILED")
# torch's messages for an operation that a device does not implement in a floating-point format: the cell is skipped.
# The same message about another format, such as integers, is an error of the cell.
NOT_IMPLEMENTED = re.compile(
    r"not implemented for '(Half|BFloat16|Double)'|unsupported dtype (Half|BFloat16)|low precision dtypes not sup"
    r"|itensor_view_from_dense expects .*Double",  # inductor's freezing of convolutions in fp64
    re.IGNORECASE,
)
# Code below these folders is Python's, a library's or accelbench's own.
NOT_THE_USERS = (
    *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    str(PACKAGE),
)
# On this signal a child writes its call stack. SIGUSR1 is taken: Lightning handles it on a cluster.
STACK_DUMP_SIGNAL = signal.SIGUSR2


def main(
    request: Request,
    environment: Mapping[str, str],
    answers: "connection.Connection[bytes, bytes]",
    stack: "connection.Connection[bytes, bytes]",
    timed: "connection.Connection[bytes, bytes]",
) -> None:
    """The entry of the process; it does not return.

    Args:
        environment: this rank's variables.
        answers: gets the encoded `Reply`.
        stack: gets the call stack at each `STACK_DUMP_SIGNAL`, also while a library's code runs.
        timed: gets each moment of `measuring.witness`.
    """
    os.setsid()  # a process group, so that one signal ends the data workers too
    end_with_starter(lambda: os.killpg(0, signal.SIGKILL))
    with open(request.log, "ab") as log:
        os.dup2(log.fileno(), sys.stdout.fileno())
        os.dup2(log.fileno(), sys.stderr.fileno())
    faulthandler.register(STACK_DUMP_SIGNAL, file=stack.fileno(), all_threads=False)
    os.environ.update(environment)
    # A folder of its own: whatever empties its TMPDIR must not remove the socket that further cells are forked through.
    os.environ["TMPDIR"] = tempfile.tempdir = tempfile.mkdtemp(prefix="cell-")
    witness.listen(lambda moment: timed.send_bytes(moment.encode()))
    witness.say(witness.Moment.ready)
    answer = respond(request)
    if answer.peak_host_bytes is None:
        answer = replace(answer, peak_host_bytes=high_water_bytes())
    sys.stdout.flush()
    sys.stderr.flush()
    answers.send_bytes(encode(replace(answer, ended_s=time.monotonic())).encode())
    os._exit(0)  # frameworks' exit handlers may hang, and there is nothing left to save


def respond(request: Request) -> Reply:
    """Does what `request` asks for; an exception becomes the answer."""
    try:
        return _probe(request) if isinstance(request, ProbeRequest) else _measure(request)
    except UnsupportedError as error:
        return Reply(status=Status.skipped, reason=message_of(error))
    except BaseException as error:  # SystemExit too: whatever ends the cell is its outcome
        return _failure(error, has_own_code=isinstance(request, CellRequest) and bool(request.cell.own_code))


def _probe(request: ProbeRequest) -> Reply:
    prober = importlib.import_module(request.prober)
    return Reply(status=Status.ok, ceilings=prober.run(request.device, request.precisions))


def _measure(request: CellRequest) -> Reply:
    engine = importlib.import_module(request.engine)
    if request.only_check:
        if hasattr(engine, "check"):  # an engine with networks of its own alone needs none
            engine.check(request.cell, Path(request.data_folder))
        return Reply(status=Status.ok)
    if request.only_export:
        assert request.exported is not None, "the request says where to"
        engine.export(request.cell, Path(request.data_folder), Path(request.exported))
        return Reply(status=Status.ok)
    paths = {"weights": request.weights, "exported": request.exported}
    known = {name: path and Path(path) for name, path in paths.items()} | {"work": request.work}
    arguments = {name: value for name, value in known.items() if value is not None}
    measurement: Measurement | None = engine.run(request.cell, Path(request.data_folder), **arguments)
    if measurement is None:  # this rank is not the first, which has the measurement
        return Reply(status=Status.ok)
    measurement = _with_allocator(measurement, request.cell.options.allocator)
    try:
        load(Measurement, plain(measurement))
    except ValueError as error:
        return Reply(status=Status.failed, reason=f"the engine's measurement is not valid: {error}")
    return Reply(
        status=Status.ok,  # the host judges
        measurement=measurement,
        peak_host_bytes=measurement.peak_host_bytes,
        until_boot_s=measurement.steady_boot_s[1] if measurement.steady_boot_s else None,
    )


def _with_allocator(measurement: Measurement, asked: Allocator) -> Measurement:
    ran = allocators.running()
    if ran is None:
        return measurement
    notes = [*measurement.notes, *allocators.notes(asked, ran)]
    return replace(measurement, allocator=ran.word, allocator_library=ran.library, notes=notes)


def _failure(error: BaseException, *, has_own_code: bool) -> Reply:
    # Lightning's trainer leaves with status 1 after an interrupt, here one of the model's: Ctrl-C reaches no cell.
    if isinstance(error, SystemExit) and isinstance(error.__context__, KeyboardInterrupt):
        error = error.__context__
    text = message_of(error)
    if isinstance(error, RuntimeError) and NOT_IMPLEMENTED.search(text):  # NotImplementedError is a RuntimeError
        return Reply(status=Status.skipped, reason=text)
    out_of_memory = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    out_of_memory = out_of_memory or any(words in text for words in OUT_OF_MEMORY)
    by_user, kind = isinstance(error, UserError), type(error).__name__
    reason = text if by_user else f"{kind}: {text}" if text else kind
    reason = "; ".join([reason.partition("\n")[0], *getattr(error, "__notes__", [])])
    place = place_of(error) if has_own_code and not by_user else None
    return Reply(
        status=Status.oom if out_of_memory else Status.failed,
        reason=reason if place is None else f"{place}: {reason}",
        error=described(error) if has_own_code else "".join(traceback.format_exception(error)),
        user_error=by_user,
    )


def is_the_users(path: str) -> bool:
    """Whether the file at `path` is neither Python's, a library's nor accelbench's own."""
    parts = Path(path).parts
    if path.startswith("<") or "site-packages" in parts or "dist-packages" in parts:
        return False
    return not any(Path(path).is_relative_to(folder) for folder in NOT_THE_USERS)


def _frames(error: BaseException) -> list[traceback.FrameSummary]:
    """The calls in the user's own files that led to the exception, the innermost last."""
    return [frame for frame in traceback.extract_tb(error.__traceback__) if is_the_users(frame.filename)]


def place_of(error: BaseException) -> str | None:
    """The innermost call in the user's own files, such as `nets.py:12`; None without such a call."""
    found = _frames(error)
    return f"{_shown(found[-1].filename)}:{found[-1].lineno}" if found else None


def described(error: BaseException) -> str:
    """The traceback of the calls in the user's own files; the whole one without such calls."""
    if not (calls := _frames(error)):
        return "".join(traceback.format_exception(error))
    for call in calls:
        call.filename = _shown(call.filename)
    lines = [*traceback.format_list(calls), *traceback.format_exception_only(error)]
    return "".join(["Traceback (most recent call last):\n", *lines])


def _shown(path: str) -> str:
    return os.path.relpath(path) if Path(path).is_relative_to(Path.cwd()) else path
