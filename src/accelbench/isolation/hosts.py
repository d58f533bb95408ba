"""Starts the host processes of a sweep. A host imports a framework once, and then forks a process for each cell.

A forked process starts in 0.04 s. A process that has to import the framework starts in 5 s.
"""

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
from shutil import rmtree
from typing import IO, Any

from accelbench.devices import interpreters
from accelbench.engines.registry import SUBSTITUTING, UNFINISHED, HostSpec, host_spec
from accelbench.isolation.child import Do, Outcome, Request, decode, encode
from accelbench.lifeline import RUN_VARIABLE, end_marked, scratch_folder
from accelbench.project import PACKAGE
from accelbench.schema.cell import Cell, Precision, Status
from accelbench.schema.serialize import digest
from accelbench.schema.text import MAX_TEXT

# A host ends a request at its timeout_s, and then needs up to half a minute until all processes have ended. If it has
# not answered MARGIN_S after timeout_s, it hangs and is killed. The first answer may take START_S longer, because the
# host imports a framework first.
MARGIN_S = 60.0
START_S = 600.0
PROBE_TIMEOUT_S = 300.0
MAX_EXPORTS_BYTES = 2 << 30  # exported networks that are kept; the temporary folder may be in memory


class Hosts:
    """The host processes of a sweep, one for each `HostSpec.key`. The end of this context kills them all.

    A host starts when it is first needed. It is killed if it does not answer a request within the request's
    `timeout_s` plus `MARGIN_S`. When a cell or a host has ended, `listener` is called with its output. `folder` is the
    TMPDIR of the cells. The end of the context removes it.
    """

    def __init__(self, spec_of: Callable[[Cell], HostSpec] = host_spec) -> None:
        self.listener: Callable[[str], None] | None = None
        self._spec_of = spec_of
        self._hosts: dict[tuple[object, ...], _Host] = {}
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
        """Starts the host process for `cell`. Does not wait until that process has imported the framework."""
        self._host(self._spec_of(cell))

    def run(
        self, cell: Cell, data_folder: Path, weights: Path | None = None, requests: Path | None = None
    ) -> Outcome:
        """Runs `cell` in a fresh process, or in one process per rank. Returns the outcome, even if the cell fails.

        If the engine needs an exported network that does not exist yet, another process exports it first. The cell
        writes its trained weights to the file `weights`, unless that is None. It writes the raw times of requests to
        the file `requests`, unless that is None.

        The status is `ok` if the cell was measured. The sweep decides later whether the numbers are valid. The process
        may still run when this method returns, but it ends before the next process starts.
        """
        spec = self._spec_of(cell)
        files = {"weights": weights, "requests": requests}
        paths = {name: str(file.absolute()) for name, file in files.items() if file is not None}
        request = Request(
            cell=cell, engine=spec.engine, data_folder=str(data_folder), timeout_s=cell.timeout_s, paths=paths
        )
        if spec.exported_as is not None:
            exports = self.folder / "exports"
            exports.mkdir(parents=True, exist_ok=True)
            # Calibration uses the data set.
            exported = exports / digest([spec.exported_as, str(data_folder)])[:16]
            request.paths["exported"] = str(exported)
            if not exported.exists():
                make_room(exports)
                outcome = self._host(spec).ask(replace(request, do=Do.export))
                if outcome.status != Status.ok:
                    return outcome
        return self._host(spec).ask(request)

    def probe(self, cell: Cell, precisions: Sequence[Precision]) -> Outcome:
        """Measures the peak rates of the cell's device in a fresh process. The cell's engine must be PyTorch."""
        request = Request(
            cell=cell,
            engine="accelbench.engines.pytorch.probe",
            data_folder="",
            timeout_s=PROBE_TIMEOUT_S,
            do=Do.probe,
            precisions=list(precisions),
        )
        return self._host(self._spec_of(cell)).ask(request)

    def _host(self, spec: HostSpec) -> "_Host":
        host = self._hosts.get(spec.key)
        if host is None or host.is_lost:
            host = self._hosts[spec.key] = _Host(spec, self.folder, next(self._numbers), self._show)
        return host

    def _show(self, log: IO[bytes]) -> None:
        if self.listener is not None and (printed := log.read().decode(errors="replace").strip()):
            self.listener(printed)


def make_room(parent: Path) -> None:
    """Removes all exported networks if they need too much space. A later cell exports its network again."""
    folders = list(parent.glob(f"{UNFINISHED}*"))  # left by a process that was killed
    if sum(path.stat().st_size for path in parent.rglob("*")) > MAX_EXPORTS_BYTES:
        folders = list(parent.iterdir())
    for folder in folders:
        rmtree(folder, ignore_errors=True)


def _only_accelbench(folder: Path) -> str:
    """Makes a folder that contains only a link to accelbench, and none of the packages in the same site-packages."""
    parent = folder / "package"
    if not parent.exists():
        parent.mkdir()
        (parent / PACKAGE.name).symlink_to(PACKAGE)
    return str(parent)


class _Host:
    """A host process. It reads requests from standard input, answers on a pipe, and prints to a temporary file."""

    is_lost = False  # whether it was killed

    def __init__(self, spec: HostSpec, folder: Path, number: int, show: Callable[[IO[bytes]], None]) -> None:
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
        # TMPDIR is the folder, so that files of the host, its cells and libraries are removed with it.
        of_run = {RUN_VARIABLE: f"{folder}/{number}", "TMPDIR": str(folder)}
        # An environment variable that only this host and its descendants have.
        self._mark = f"{RUN_VARIABLE}={of_run[RUN_VARIABLE]}\0"
        answers, theirs = os.pipe()  # not standard output: the interpreter may print there when it starts
        self.answers = os.fdopen(answers, "rb", buffering=0)
        with os.fdopen(theirs, "wb"):
            self.process: Any = subprocess.Popen(
                # Not `-m`: each cell's process would import the host's main module again. `-P` keeps the current folder
                # out of the import path: a user's `random.py` there would hide Python's module.
                [file, "-P", "-c", f"from accelbench.isolation.supervisor import main; main({theirs})"],
                stdin=subprocess.PIPE,
                stdout=self.log,
                stderr=self.log,
                pass_fds=[theirs],
                # torch must not load the drivers of installed devices here, because the host forks.
                env={**inherited, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", **spec.environment, **of_run},
                start_new_session=True,  # Ctrl-C then reaches only the parent
            )
        self.margin_s = START_S + MARGIN_S
        self._send(spec.preload)

    def _send(self, message: object) -> None:
        with contextlib.suppress(BrokenPipeError):  # the host has died; `ask` handles that
            self.process.stdin.write(encode(message).encode() + b"\n")
            self.process.stdin.flush()

    def ask(self, request: Request) -> Outcome:
        """Sends `request`, and returns its outcome.

        The status is `killed` if the host dies, or does not answer within the request's `timeout_s` plus `MARGIN_S`. In
        both cases, this method kills the host and its descendants. The first answer has `START_S` more seconds.
        """
        deadline = time.monotonic() + request.timeout_s + self.margin_s
        self.folder.mkdir(exist_ok=True)  # a cell may have removed it, because it is the cells' TMPDIR
        with tempfile.NamedTemporaryFile(dir=self.folder, suffix=".log", delete=False) as log:
            self._send(replace(request, log=log.name))
            line, reason = bytearray(), ""
            while not line.endswith(b"\n"):
                if not connection.wait([self.answers.fileno()], max(0.0, deadline - time.monotonic())):
                    reason = f"the host process did not answer in timeout_s, nor in the {self.margin_s:g} s after it"
                    break
                part = self.answers.read(1 << 20)
                if not part:
                    reason = "the process that starts cells died"
                    break
                line += part
            self.show(log)
        Path(log.name).unlink(missing_ok=True)
        if reason:
            return Outcome(status=Status.killed, reason=reason, error=self.kill() or None)
        self.margin_s = MARGIN_S
        return decode(Outcome, bytes(line))

    def kill(self) -> str:
        """Kills the host and all its descendants, including orphans. Returns the last part of the host's output."""
        self.is_lost = True
        self.process.kill()
        end_marked(self._mark)
        self.process.wait()
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.answers.close()
        with self.log as log:
            start = max(0, os.fstat(log.fileno()).st_size - MAX_TEXT)
            log.seek(start)
            self.show(log)
            log.seek(start)
            return log.read().decode(errors="replace")
