"""The record: what happened to one cell, raw samples included, written first and atomically."""

import dataclasses
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from accelbench.cell import Cell
from accelbench.errors import UserError
from accelbench.vocab import Status

SCHEMA_VERSION = 4
FILES = f"{'?' * 12}-{'?' * 8}.json"  # the pattern of `Record.name`


@dataclass(frozen=True, kw_only=True)
class Block:
    """Steps that ran freely and were waited for once, at their end."""

    num_steps: int
    num_samples: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The trained model on the whole test set.

    Attributes:
        accuracy: share of right answers, 0 to 1; None for a model that classifies nothing.
        loss: mean over the test set; None where it is not finite.
    """

    num_samples: int
    seconds: float
    loss: float | None
    accuracy: float | None = None

    @classmethod
    def from_json(cls, values: Mapping[str, Any] | None) -> "Evaluation | None":
        """The evaluation that `dataclasses.asdict` wrote, if it did."""
        return cls(**values) if values else None


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """One whole pass over the data, waited for at its end.

    Attributes:
        seconds: wall time, data included, compilation included.
        num_samples: samples that were really computed.
        loss: mean over the epoch's steps; None where none is computed (inference).
        accuracy: share of right answers in training, as the weights were at each step; None where none are given.
        evaluation: on the test set, after the epoch and outside of its seconds; None in inference.
    """

    seconds: float
    num_samples: int
    loss: float | None = None
    accuracy: float | None = None
    evaluation: Evaluation | None = None

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Epoch":
        """The epoch that `dataclasses.asdict` wrote."""
        return cls(**{**values, "evaluation": Evaluation.from_json(values["evaluation"])})


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """What the engine measured, raw. Seconds are wall time; lists hold a value per step, in order.

    Attributes:
        device, device_name, precision: what really ran, as observed, not as asked.
        num_devices: how many accelerators computed.
        threads: how many CPU threads; None where the engine can't tell.
        num_params: trainable parameters.
        num_train_samples, num_test_samples: samples in each split; None for random images.
        build_s: from nothing to a model on its device.
        compile_s, num_compiles: compilation (XLA's, torch.compile's), where the engine can tell; else None.
        first_step_s: the first step, waited for.
        warmup_s: steps before the steady state, each waited for; of many, the first.
        warmup_total_s: seconds of all of them.
        blocks: free-running blocks of the steady state: the throughput's samples.
        latency_s: steps of the steady state, each waited for.
        launch_s: of the same steps, until the call returned, before waiting.
        data_s: of the same steps: getting the batch.
        copy_in_s, copy_out_s: of the same steps: moving the batch to the device and the result back; empty
            where nothing is moved.
        steady_boot_s: when the steady state, or the first and last epoch, began and ended, in seconds since
            the machine started.
        epochs: whole epochs (`fit`).
        loss: the last training step's, of one batch; None in inference.
        evaluation: on the test set, after the last epoch of training; else None.
        output_error: how far the output for two samples is from that of the same weights in fp32 on the CPU: the norm
            of the difference over the norm; None in training, and for plain fp32 on the CPU itself.
        peak_device_bytes: the allocator's peak on the accelerator; None where there is none to ask.
        peak_host_bytes: the kernel's high-water mark of the process's memory when measuring ended; None where it does
            not tell.
        warnings: what a reader of the numbers should know.
        defects: what makes the numbers false, such as a loss that is not finite: the cell is invalid.
    """

    device: str
    device_name: str
    precision: str
    num_devices: int
    threads: int | None
    num_params: int
    num_train_samples: int | None
    num_test_samples: int | None
    build_s: float
    compile_s: float | None = None
    num_compiles: int | None = None
    first_step_s: float | None = None
    warmup_s: list[float] = field(default_factory=list)
    warmup_total_s: float = 0.0
    blocks: list[Block] = field(default_factory=list)
    latency_s: list[float] = field(default_factory=list)
    launch_s: list[float] = field(default_factory=list)
    data_s: list[float] = field(default_factory=list)
    copy_in_s: list[float] = field(default_factory=list)
    copy_out_s: list[float] = field(default_factory=list)
    steady_boot_s: tuple[float, float] | None = None
    epochs: list[Epoch] = field(default_factory=list)
    loss: float | None = None
    evaluation: Evaluation | None = None
    output_error: float | None = None
    peak_device_bytes: int | None = None
    peak_host_bytes: int | None = None
    warnings: list[str] = field(default_factory=list)
    defects: list[str] = field(default_factory=list)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Measurement":
        """The measurement that `dataclasses.asdict` wrote."""
        steady = values["steady_boot_s"]
        return cls(
            **{
                **values,
                "steady_boot_s": tuple(steady) if steady else None,
                "blocks": [Block(**block) for block in values["blocks"]],
                "epochs": [Epoch.from_json(epoch) for epoch in values["epochs"]],
                "evaluation": Evaluation.from_json(values["evaluation"]),
            }
        )


@dataclass(frozen=True, kw_only=True)
class SystemSeries:
    """The sampler's series over a cell's life.

    Attributes:
        started_boot_s: when the cell's process started, in seconds since the machine did.
        t_s: seconds since the cell's process started, a value per sample.
        values: name -> a value per sample (None where that sample has none). Names carry their unit:
            `host_memory_mb`, `cpu_utilization_percent`, `gpu_0_memory_mb`, `gpu_0_power_w`, ...
        peak_host_bytes: the kernel's own high-water mark of the cell's process where it could be read, or
            the largest sample of its process tree, whichever is more.
    """

    started_boot_s: float | None = None
    t_s: list[float] = field(default_factory=list)
    values: dict[str, list[float | None]] = field(default_factory=dict)
    peak_host_bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class Data:
    """The data set that a cell read, from its manifest.

    Attributes:
        digest: of the manifest: changes with any byte of the data.
        source: where it came from, for people.
        stand_in: whether it only stands in for the set it is named after.
    """

    name: str
    digest: str
    source: str
    stand_in: bool


@dataclass(frozen=True, kw_only=True)
class Record:
    """One cell's outcome.

    Attributes:
        identity: digest of the settings, the data, the machine, the versions and the measuring code: a
            record answers for a cell only where these are equal.
        reason: why it is not `ok`, in one line; None where it is.
        error: the traceback's end or the last words of the process; None where it is ok.
        started_at: UTC, ISO 8601.
        wall_s: seconds from asking for the cell to its outcome, process start included.
        environment: the fingerprint of machine, versions, measuring code and git.
        sweep_id: which sweep measured it (its start and suite); None for a cell run on its own.
    """

    cell: Cell
    identity: str
    status: Status
    started_at: str
    wall_s: float
    environment: Mapping[str, Any]
    reason: str | None = None
    error: str | None = None
    data: Data | None = None
    measurement: Measurement | None = None
    system: SystemSeries | None = None
    sweep_id: str | None = None
    schema_version: int = SCHEMA_VERSION

    @property
    def name(self) -> str:
        """The file's name without its ending: `<cell_id>-<identity8>`."""
        return f"{self.cell.id}-{self.identity[:8]}"

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values, the cell's id and label added for people and scripts."""
        return {"cell_id": self.cell.id, "label": self.cell.label, **dataclasses.asdict(self)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Record":
        """The record that `to_json` wrote.

        Raises:
            UserError: the record is of another schema.
        """
        if values.get("schema_version") != SCHEMA_VERSION:
            found = values.get("schema_version")
            raise UserError(f"a record of schema {found}; this accelbench reads schema {SCHEMA_VERSION}")
        measurement, data, system = values["measurement"], values["data"], values["system"]
        return cls(
            cell=Cell.from_json(values["cell"]),
            identity=values["identity"],
            status=Status(values["status"]),
            started_at=values["started_at"],
            wall_s=values["wall_s"],
            environment=values["environment"],
            sweep_id=values["sweep_id"],
            reason=values["reason"],
            error=values["error"],
            data=Data(**data) if data else None,
            measurement=Measurement.from_json(measurement) if measurement else None,
            system=SystemSeries(**system) if system else None,
        )


def write_json(path: Path, value: object) -> None:
    """Writes JSON so that `path` holds either the old text or the whole new one, whatever happens."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=".", suffix=".tmp", delete=False) as file:
        try:
            json.dump(value, file, indent=1, allow_nan=False)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
            os.chmod(file.name, 0o644)
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


def write(record: Record, folder: Path) -> Path:
    """Writes `record` into `folder` atomically and returns its path."""
    path = folder / f"{record.name}.json"
    write_json(path, record.to_json())
    return path


def read(path: Path) -> Record:
    """Reads one record.

    Raises:
        UserError: the file is no record.
    """
    try:
        return Record.from_json(json.loads(path.read_text()))
    except (ValueError, KeyError, TypeError, AttributeError, UserError) as error:
        raise UserError(f"{path}: not a readable record ({error})") from error


def read_planned(folder: Path) -> Iterator[Record]:
    """The records that `folder/plan.json` names, in its order; those not there yet are passed over.

    Raises:
        UserError: a file is no record, or there is no plan.
    """
    plan = folder / "plan.json"
    try:
        names = [entry["record"] for entry in json.loads(plan.read_text())["cells"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{plan}: not a readable plan ({error}); run the sweep first") from error
    for name in names:
        path = folder / f"{name}.json"
        if path.exists():
            yield read(path)
