"""What every engine has to say of its framework on a device."""

from accelbench.measuring.runner import Compiles


class BaseBackend:
    """How an engine's framework runs on one kind of device. The defaults are a CPU that returns when it is done."""

    on_host = True
    """Whether a batch is computed in the memory where it was fetched."""
    queues = False
    """Whether a step may return before it is done, or waiting for it takes time of its own."""

    def wait(self) -> None:
        """Returns when everything launched on the device is done."""

    def compiles(self) -> Compiles:
        return 0, 0.0

    def fallbacks(self) -> list[str] | None:
        """Names of the operators that ran on the CPU instead; None if that can't happen unnoticed."""
        return None

    def peak_memory_bytes(self) -> int | None:
        """The device allocator's peak since the process started; None if the device reports none."""
        return None

    def device_name(self) -> str | None:
        """The hardware's name; None if only `devices.registry` knows it."""
        return None

    def read_back(self) -> str | None:
        """The settings that `changed` reads back, in words; None if it reads none."""
        return None

    def changed(self) -> list[str]:
        """Sentences about the framework's settings that changed while the cell was measured; each makes it invalid."""
        return []
