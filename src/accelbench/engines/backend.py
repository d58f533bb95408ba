"""The base class of backends: how an engine's framework behaves on a device."""

from accelbench.measuring.runner import Compiles


class BaseBackend:
    """How an engine's framework runs on one kind of device.

    The defaults describe a CPU on which a step is finished when it returns.
    """

    on_host = True
    """Whether the device computes in host memory, so that batches are not copied."""
    queues = False
    """Whether a step may return before the device has finished the step, or whether waiting takes time."""

    def wait(self) -> None:
        """Returns when the device has finished everything that was launched on it."""

    def compiles(self) -> Compiles:
        """The number of compilations in this process so far, and their seconds."""
        return 0, 0.0

    def fallbacks(self) -> list[str] | None:
        """Names of the operators that ran on the CPU instead of the device.

        None if the framework never silently falls back to the CPU.
        """
        return None

    def peak_memory_bytes(self) -> int | None:
        """The peak memory of the device's allocator since the process started; None if the device reports no peak."""
        return None

    def device_name(self) -> str | None:
        """The hardware's name; None if only `devices.registry` knows it."""
        return None

    def read_back(self) -> str | None:
        """The names of the settings that `changed()` compares, in one text. None if this backend compares none."""
        return None

    def changed(self) -> list[str]:
        """Reads the framework's settings back. Returns sentences about settings that changed during the measurement."""
        return []
