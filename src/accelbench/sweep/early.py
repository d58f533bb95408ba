"""Starts the host of a command's first cell while the command's words are still being composed.

A host imports its framework for seconds, and composing the words, reading the data's manifest and the machine's
fingerprint take one. A wrong guess costs little: the host is ended before anything is measured.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from accelbench import lock
from accelbench.devices import energy_counters
from accelbench.isolation.hosts import Hosts
from accelbench.schema.cell import Cell
from accelbench.schema.vocab import Device, Engine, Library, Mode, Precision, Protocol
from accelbench.schema.workload import DataSpec, ModelSpec
from accelbench.settings.config import Executor


@contextmanager
def hosts(words: Sequence[str]) -> Iterator[Hosts]:
    """Hosts for the cells that `words` ask for; the first one is starting if they tell which one it is.

    It is not started while another sweep measures, which it would disturb, and not where the processor's energy is
    counted: it would be taken for idle power.
    """
    with Hosts() as found:
        cell = guess(words)
        if cell is not None and not lock.is_measuring() and not energy_counters.counters(num_gpus=0):
            found.start(cell)
        yield found


def guess(words: Sequence[str]) -> Cell | None:
    """A cell with the host that conf/config.yaml's defaults give the cells of `words`; None if they may have others."""
    chosen = dict(word.split("=", 1) for word in words if "=" in word)
    is_default = chosen.get("engine", "lightning") == Engine.lightning and chosen.get("device", "cpu") == Device.cpu
    imports_more = any(library in chosen.get("model", "") for library in (Library.timm, Library.transformers))
    is_elsewhere = chosen.get("executor", Executor.local) != Executor.local
    return None if not is_default or "suite" in chosen or imports_more or is_elsewhere else plain_cell()


def plain_cell(device: Device = Device.cpu, precision: Precision = Precision.fp32, model: str = "mlp") -> Cell:
    """A small cell of this kind, which stands for others in what does not depend on the rest of its settings."""
    return Cell(
        suite="",
        engine=Engine.lightning,
        device=device,
        model=ModelSpec(name=model),
        data=DataSpec(name=""),
        mode=Mode.infer,
        precision=precision,
        batch_size=1,
        protocol=Protocol.window,
        epochs=1,
    )
