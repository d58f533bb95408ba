"""The hosts of a sweep. Each cell gets a fresh process, forked from a preloaded one in 0.04 s instead of 5 s."""

import contextlib
import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from multiprocessing import connection
from pathlib import Path
from shutil import disk_usage, rmtree
from typing import IO, Any

from accelbench.devices import interpreters
from accelbench.devices.proc import check_clocks
from accelbench.engines.registry import SUBSTITUTING, UNFINISHED, HostSpec, host_spec
from accelbench.isolation.messages import Do, Outcome, Request, decode, encode
from accelbench.lifeline import RUN_VARIABLE, end_marked, scratch_folder
from accelbench.project import PACKAGE
from accelbench.schema.cell import Cell
from accelbench.schema.measurement import Work
from accelbench.schema.serialize import digest
from accelbench.schema.text import MAX_TEXT
from accelbench.schema.vocab import Precision, Status

# A host ends a request at its timeout_s and needs up to half a minute until all processes have ended. One that has not
# answered after this long does not work any more, and is killed. It has more time to start, which imports a framework.
MARGIN_S = 60.0
START_S = 600.0
PROBE_TIMEOUT_S = 300.0
CHECK_TIMEOUT_S = 60.0
MAX_EXPORTS_BYTES = 2 << 30  # of all exported networks together: the temporary folder may be in memory
MAX_EXPORTS_SHARE = 0.5  # of the room that there would be without them


class Hosts:
    """One host per environment that cells need, started when first needed, ended on leaving the context.

    `margin_s` seconds beyond a request's `timeout_s`, a host that does not answer is killed. `listener` gets what cells
    and hosts printed, after they ended; `meanwhile` is called while a cell runs, as soon as nothing is timed there.
    `folder` is the TMPDIR of the cells, which is removed at the end.
    """

    def __init__(self, spec_of: Callable[[Cell], HostSpec] = host_spec, margin_s: float = MARGIN_S) -> None:
        self.listener: Callable[[str], None] | None = None
        self.meanwhile: Callable[[], None] | None = None
        self._spec_of, self._margin_s = spec_of, margin_s
        self._hosts: dict[tuple[object, ...], _Host] = {}
        self._works: dict[str | None, Work] = {}  # of a step, by the settings that it depends on
        self._counted: dict[str, Work | None] = {}  # by the cell's id
        self._numbers = itertools.count()
        self._stack = ExitStack()

    def __enter__(self) -> "Hosts":
        self.folder = self._stack.enter_context(scratch_folder())
        return self

    def __exit__(self, *_: object) -> None:
        with self._stack:
            for host in self._hosts.values():
                if not host.is_lost:
                    host.kill()
            self._hosts.clear()

    def start(self, cell: Cell) -> None:
        """Starts the host of `cell` and returns while it still imports the framework."""
        self._host(self._spec_of(cell))

    def run(self, cell: Cell, data_folder: Path, weights: Path | None = None, requests: Path | None = None) -> Outcome:
        """Runs `cell` in a fresh process (or one per rank); blocks until its outcome is known, whatever that is.

        The process may still be ending. It has ended before another one starts. If the engine loads an exported
        network, and no cell before has had it exported, another process does that first. The file `weights` gets the
        trained weights, and `requests` the raw times of each request; None: they are not saved. If it is measured, its
        status is `ok`: whether the measurement is valid is not judged here.
        """
        spec = self._spec_of(cell)
        request = Request(cell=cell, engine=spec.engine, data_folder=str(data_folder), timeout_s=cell.timeout_s)
        if spec.exported_as is not None:
            exports = self.folder / "exports"
            exports.mkdir(parents=True, exist_ok=True)
            exported = exports / digest([spec.exported_as, str(data_folder)])[:16]  # the data set may calibrate it
            request = replace(request, exported=str(exported))
            if not exported.exists():
                make_room(exports)
                outcome = self._host(spec).ask(replace(request, do=Do.export), self._margin_s)
                if outcome.status != Status.ok:
                    return outcome
        # Equal for cells whose steps do the same work; None if unknown: the user's code may do what it likes.
        counted_as = None if cell.own_code else cell.key_without(("seed", "repeat", "server"))
        request = replace(
            request,
            work=self._works.get(counted_as),
            weights=None if weights is None else str(weights.absolute()),
            requests=None if requests is None else str(requests.absolute()),
            num_processes=spec.num_processes,
        )
        outcome = self._host(spec).ask(request, self._margin_s, self.meanwhile)
        work = outcome.measurement.work if outcome.measurement else None
        if counted_as and work is not None and not work.uncounted:
            self._works[counted_as] = work
        return outcome

    def check(self, cell: Cell, data_folder: Path) -> Outcome:
        """Has the cell's engine check, in a fresh process, that the network runs on a batch."""
        return self._ask(cell, do=Do.check, data_folder=str(data_folder))

    def count(self, cell: Cell) -> Work | None:
        """The work of one step of `cell`, counted once, in a fresh process, which runs none; None if that failed."""
        if cell.id not in self._counted:
            self._counted[cell.id] = self._ask(cell, do=Do.count).work
        return self._counted[cell.id]

    def can_probe(self, cell: Cell) -> bool:
        return self._spec_of(cell).prober is not None

    def probe(self, cell: Cell, precisions: Sequence[Precision]) -> Outcome:
        """Has the ceilings of the cell's device measured in a fresh process, if it `can_probe` them."""
        prober = self._spec_of(cell).prober or ""
        return self._ask(cell, do=Do.probe, engine=prober, precisions=list(precisions), timeout_s=PROBE_TIMEOUT_S)

    def _ask(self, cell: Cell, **asked: Any) -> Outcome:
        spec = self._spec_of(cell)
        request = Request(cell=cell, engine=spec.engine, data_folder="", timeout_s=CHECK_TIMEOUT_S)
        return self._host(spec).ask(replace(request, **asked), self._margin_s)

    def _host(self, spec: HostSpec) -> "_Host":
        host = self._hosts.get(spec.key)
        if host is None or host.is_lost:
            host = self._hosts[spec.key] = _Host(spec, self.folder, next(self._numbers), self._show)
        return host

    def _show(self, log: IO[bytes]) -> None:
        if self.listener is not None and (printed := log.read().decode(errors="replace").strip()):
            self.listener(printed)


def make_room(parent: Path, max_bytes: int = MAX_EXPORTS_BYTES) -> None:
    """Removes all exported networks if they take much room: they are exported again when they are needed."""
    for path in parent.glob(f"{UNFINISHED}*"):  # of a process that was killed, and may still be ending
        rmtree(path, ignore_errors=True)
    num_bytes = sum(path.stat().st_size for path in parent.rglob("*") if path.is_file())
    if num_bytes > min(max_bytes, MAX_EXPORTS_SHARE * (disk_usage(parent).free + num_bytes)):
        rmtree(parent, ignore_errors=True)
        parent.mkdir(exist_ok=True)


def _only_accelbench(folder: Path) -> str:
    """A folder that holds the package alone, whatever is installed beside it."""
    parent = folder / "package"
    if not parent.exists():
        parent.mkdir()
        (parent / PACKAGE.name).symlink_to(PACKAGE)
    return str(parent)


class _Host:
    """A running host process, its standard input and a pipe of answers. What it prints goes into a nameless file."""

    is_lost = False  # whether it was killed, since it does not answer

    def __init__(self, spec: HostSpec, folder: Path, number: int, show: Callable[[IO[bytes]], None]) -> None:
        check_clocks()  # a host and its cells inherit them
        self.folder, self.show = folder, show
        self.log = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115  # closed in `kill`
        if spec.python is None:
            file = sys.executable
            variables = interpreters.own_variables()
        else:
            file = interpreters.executable(spec.python)
            library = interpreters.look(spec.python).library
            variables = interpreters.variables(file, *library, _only_accelbench(folder))
        inherited = {name: value for name, value in variables.items() if name not in SUBSTITUTING}
        # What the host, its cells and their libraries leave in TMPDIR goes with the folder.
        of_run = {RUN_VARIABLE: f"{folder}/{number}", "TMPDIR": str(folder)}
        # A part of its environment that no other process has, except those below it.
        self._mark = f"{RUN_VARIABLE}={of_run[RUN_VARIABLE]}\0"
        answers, theirs = os.pipe()  # not its standard output, to which its environment may print as it starts
        self.answers = os.fdopen(answers, "rb", buffering=0)
        with os.fdopen(theirs, "wb"):
            self.process: Any = subprocess.Popen(
                # Not `-m`: each cell's process would import the host's main module again. `-P`: the current folder is
                # not before Python's library, where a `random.py` of the user's own would be imported for Python's.
                [file, "-P", "-c", f"from accelbench.isolation.supervisor import main; main({theirs})"],
                stdin=subprocess.PIPE,
                stdout=self.log,
                stderr=self.log,
                pass_fds=[theirs],
                # A host is forked, so nothing that torch finds installed may start another device's driver there.
                env={**inherited, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", **spec.environment, **of_run},
                start_new_session=True,  # so that Ctrl-C reaches the parent only
            )
        self.has_answered = False
        self._send(spec.preload)

    def _send(self, message: object) -> None:
        with contextlib.suppress(BrokenPipeError):  # it has died, as `ask` will find
            self.process.stdin.write(encode(message).encode() + b"\n")
            self.process.stdin.flush()

    def ask(self, request: Request, margin_s: float, meanwhile: Callable[[], None] | None = None) -> Outcome:
        """The outcome of `request`. If the host has died, or does not answer `margin_s` after its limit, it is killed.

        `meanwhile` is called once nothing more is timed. What is printed is shown.
        """
        margin_s += 0.0 if self.has_answered else START_S
        deadline = time.monotonic() + request.timeout_s + margin_s
        self.folder.mkdir(exist_ok=True)  # it is the cells' TMPDIR: one may have emptied or removed it
        with tempfile.NamedTemporaryFile(dir=self.folder, suffix=".log", delete=False) as log:
            self._send(replace(request, log=log.name))
            line, reason = bytearray(), ""
            while not line.endswith(b"\n"):
                if not connection.wait([self.answers.fileno()], max(0.0, deadline - time.monotonic())):
                    reason = f"the host did not answer for {margin_s:g} s beyond timeout_s"
                    break
                part = self.answers.read(1 << 20)
                if not part:
                    reason = "the process that starts cells died"
                    break
                line += part
                if line.startswith(b"\n"):
                    del line[0]
                    if meanwhile is not None:
                        meanwhile()
            self.show(log)
        Path(log.name).unlink(missing_ok=True)
        if reason:
            return Outcome(status=Status.killed, reason=reason, error=self.kill() or None)
        self.has_answered = True
        return decode(Outcome, bytes(line))

    def kill(self) -> str:
        """Kills the host and every process below it, also orphans; returns the end of the host's output."""
        self.is_lost = True
        self.process.kill()
        end_marked(self._mark)
        self.process.wait()
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.answers.close()
        with self.log:
            start = max(0, os.fstat(self.log.fileno()).st_size - MAX_TEXT)
            self.log.seek(start)
            self.show(self.log)
            self.log.seek(start)
            return self.log.read().decode(errors="replace")
