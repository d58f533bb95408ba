"""A fresh process per cell, forked from a preloaded one: 0.04 s a cell where a new interpreter takes 5."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from accelbench.engines.registry import SUBSTITUTING, HostSpec, host_spec
from accelbench.schema.ceilings import Ceilings
from accelbench.schema.cell import Cell
from accelbench.schema.conditions import SystemSeries
from accelbench.schema.measurement import Measurement
from accelbench.schema.serialize import load
from accelbench.schema.vocab import Device, Status

# How long a host may take to end its cell and itself before it is killed.
END_S = 10.0
PROBE_TIMEOUT_S = 300.0


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a cell's process ended; see `record.Record` for the attributes."""

    status: Status
    reason: str | None = None
    error: str | None = None
    measurement: Measurement | None = None
    system: SystemSeries | None = None


class ProbeFailedError(Exception):
    """A device's ceilings could not be found; the message says why."""


class Hosts:
    """The hosts of a sweep: one per environment, started when first needed, ended on leaving.

    Args:
        spec_of: which host a cell needs.

    Attributes:
        listener: gets what each cell's process and its libraries printed, once it ended, and what the last lines of
            each host were; None where nobody asked for that.
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
        for each in printed:
            self._tell(each)

    def start(self, cell: Cell) -> None:
        """Starts the host of `cell`, whose imports go on while the caller does something else."""
        self._host(self._spec_of(cell))

    def run(self, cell: Cell, data_folder: Path) -> Outcome:
        """Runs `cell` in a process of its own; blocks until it ended, one way or another."""
        spec = self._spec_of(cell)
        request = {
            "cell": cell.to_json(),
            "engine": spec.engine,
            "data_folder": str(data_folder),
            "timeout_s": cell.timeout_s,
            "num_gpus": cell.devices if cell.device == Device.gpu else 0,
            "num_processes": spec.num_processes,
        }
        return _outcome(self._ask(spec, request))

    def can_probe(self, cell: Cell) -> bool:
        """Whether the cell's engine finds ceilings."""
        return self._spec_of(cell).prober is not None

    def probe(self, cell: Cell) -> Ceilings:
        """The ceilings of the cell's device, from a process of its own.

        Raises:
            ProbeFailedError: they could not be found.
        """
        spec = self._spec_of(cell)
        request = {
            "prober": spec.prober,
            "device": cell.device,
            "timeout_s": PROBE_TIMEOUT_S,
            "num_gpus": 0,
            "num_processes": 1,
        }
        answer = self._ask(spec, request)
        found = load(Ceilings, answer["ceilings"]) if "ceilings" in answer else None
        if found is None:
            raise ProbeFailedError(answer.get("reason") or answer["status"])
        return found

    def _host(self, spec: HostSpec) -> "_Host":
        if spec.key not in self._hosts:
            self._hosts[spec.key] = _start(spec)
        return self._hosts[spec.key]

    def _ask(self, spec: HostSpec, request: dict[str, Any]) -> dict[str, Any]:
        host = self._host(spec)
        with tempfile.NamedTemporaryFile(prefix="accelbench-", suffix=".log") as log:
            answer = host.ask({**request, "log": log.name})
            if self.listener is not None:
                self._tell(Path(log.name).read_text(errors="replace"))
        if answer is None:
            del self._hosts[spec.key]
            said = host.end()
            self._tell(said)
            return {"status": Status.killed, "reason": "the process that starts cells died", "error": said or None}
        return answer

    def _tell(self, printed: str) -> None:
        if self.listener is not None and printed.strip():
            self.listener(printed.strip())


class _Host:
    """A running host process and its two pipes."""

    def __init__(self, process: "subprocess.Popen[str]", log: IO[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process, self.stdin, self.stdout, self.log = process, process.stdin, process.stdout, log

    def send(self, value: object) -> None:
        self.stdin.write(json.dumps(value) + "\n")
        self.stdin.flush()

    def ask(self, request: dict[str, Any]) -> dict[str, Any] | None:
        """The answer to `request`, asleep until it comes; None where the host died."""
        try:
            self.send(request)
            line = self.stdout.readline()
        except BrokenPipeError:
            return None
        return json.loads(line) if line else None

    def end(self) -> str:
        """Ends the host and its cell; returns the end of what it printed."""
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
    log = tempfile.TemporaryFile("w+")  # noqa: SIM115  # what the frameworks' imports say; closed in `_Host.end`
    inherited = {name: value for name, value in os.environ.items() if name not in SUBSTITUTING}
    process = subprocess.Popen(
        # Not `-m`: the cells' processes would import the host's main module anew, each of them.
        [sys.executable, "-c", "from accelbench.isolation.host import main; main()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
        env={**inherited, **spec.environment, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        start_new_session=True,  # Ctrl-C is the parent's to handle
    )
    host = _Host(process, log)
    host.send(spec.preload)
    return host


def _outcome(answer: dict[str, Any]) -> Outcome:
    measurement, system = answer.get("measurement"), answer.get("system")
    return Outcome(
        status=Status(answer["status"]),
        reason=answer.get("reason"),
        error=answer.get("error"),
        measurement=load(Measurement, measurement) if measurement else None,
        system=SystemSeries(**system) if system else None,
    )
