"""The hosts of a sweep. Each cell gets a fresh process, forked from a preloaded one in 0.04 s instead of 5 s."""

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import IO

from accelbench.engines.registry import SUBSTITUTING, HostSpec, host_spec
from accelbench.isolation.messages import CellRequest, Outcome, ProbeRequest, Request, decode, encode
from accelbench.schema.ceilings import Ceilings
from accelbench.schema.cell import Cell
from accelbench.schema.vocab import Device, Status

# A host that has not ended its cell and itself after this long is killed.
END_S = 10.0
PROBE_TIMEOUT_S = 300.0


class ProbeFailedError(Exception):
    """A device could not be probed; the message says why."""


class Hosts:
    """One host per environment that cells need, started when first needed, ended on leaving the context.

    Args:
        spec_of: cell -> the host that it needs.

    Attributes:
        listener: gets what each cell's process and its libraries printed, after the process ended, and the last
            output of each host; None to drop it.
    """

    def __init__(self, spec_of: Callable[[Cell], HostSpec] = host_spec) -> None:
        self.listener: Callable[[str], None] | None = None
        self._spec_of = spec_of
        self._hosts: dict[tuple[object, ...], _Host] = {}

    def __enter__(self) -> "Hosts":
        return self

    def __exit__(self, *_: object) -> None:
        printed = [host.end() for host in self._hosts.values()]
        self._hosts.clear()
        for text in printed:
            self._show(text)

    def start(self, cell: Cell) -> None:
        """Starts the host of `cell` and returns while it still imports the framework."""
        self._host(self._spec_of(cell))

    def run(self, cell: Cell, data_folder: Path) -> Outcome:
        """Runs `cell` in a fresh process (or one per rank); blocks until it has ended, however that happens."""
        spec = self._spec_of(cell)
        request = CellRequest(
            cell=cell,
            engine=spec.engine,
            data_folder=str(data_folder),
            timeout_s=cell.timeout_s,
            num_gpus=cell.devices if cell.device == Device.gpu else 0,
            num_processes=spec.num_processes,
        )
        return self._ask(spec, request)

    def can_probe(self, cell: Cell) -> bool:
        """Whether the cell's engine can probe ceilings."""
        return self._spec_of(cell).prober is not None

    def probe(self, cell: Cell) -> Ceilings:
        """The ceilings of the cell's device, measured in a fresh process. The cell's engine has to be able to probe.

        Raises:
            ProbeFailedError: the probe failed.
        """
        spec = self._spec_of(cell)
        assert spec.prober is not None
        outcome = self._ask(spec, ProbeRequest(prober=spec.prober, device=cell.device, timeout_s=PROBE_TIMEOUT_S))
        if outcome.ceilings is None:
            raise ProbeFailedError(outcome.reason or outcome.status)
        return outcome.ceilings

    def _host(self, spec: HostSpec) -> "_Host":
        if spec.key not in self._hosts:
            self._hosts[spec.key] = _start(spec)
        return self._hosts[spec.key]

    def _ask(self, spec: HostSpec, request: Request) -> Outcome:
        host = self._host(spec)
        with tempfile.NamedTemporaryFile(prefix="accelbench-", suffix=".log") as log:
            outcome = host.ask(replace(request, log=log.name))
            if self.listener is not None:
                self._show(Path(log.name).read_text(errors="replace"))
        if outcome is None:
            del self._hosts[spec.key]
            printed = host.end()
            self._show(printed)
            reason = "the process that starts cells died"
            return Outcome(status=Status.killed, reason=reason, error=printed or None)
        return outcome

    def _show(self, printed: str) -> None:
        if self.listener is not None and printed.strip():
            self.listener(printed.strip())


class _Host:
    """A running host process and its two pipes."""

    def __init__(self, process: "subprocess.Popen[str]", log: IO[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process, self.stdin, self.stdout, self.log = process, process.stdin, process.stdout, log

    def send(self, message: object) -> None:
        self.stdin.write(encode(message) + "\n")
        self.stdin.flush()

    def ask(self, request: Request) -> Outcome | None:
        """The outcome of `request`; blocks until it comes. None if the host died."""
        try:
            self.send(request)
            line = self.stdout.readline()
        except BrokenPipeError:
            return None
        return decode(Outcome, line) if line else None

    def end(self) -> str:
        """Ends the host and its cell; returns the end of the host's output."""
        with contextlib.suppress(BrokenPipeError):
            self.stdin.close()
        try:
            self.process.wait(timeout=END_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.stdout.close()
        self.log.seek(0)
        with self.log:
            return self.log.read()[-4000:]


def _start(spec: HostSpec) -> _Host:
    log = tempfile.TemporaryFile("w+")  # noqa: SIM115  # the output of the imports; closed in `_Host.end`
    inherited = {name: value for name, value in os.environ.items() if name not in SUBSTITUTING}
    process = subprocess.Popen(
        # Not `-m`: each cell's process would import the host's main module again.
        [sys.executable, "-c", "from accelbench.isolation.host import main; main()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
        env={**inherited, **spec.environment, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        start_new_session=True,  # so that Ctrl-C reaches the parent only
    )
    host = _Host(process, log)
    host.send(spec.preload)
    return host
