"""The base class of backends. A backend operates an engine's framework on one kind of device."""

from accelbench.measuring.runner import Compiles


class BaseBackend:
    """Operates an engine's framework on one kind of device.

    The defaults are for a CPU on which a step has finished as soon as the call of the step returns.
    """

    on_host = True
    """True if the device computes in host memory. Then batches are not copied."""
    queues = False
    """True if a step may return before the device has finished it, or if `wait` itself takes a noticeable time."""

    def wait(self) -> None:
        """Returns when the device has finished everything that was launched on it."""

    def compiles(self) -> Compiles:
        """Returns how often this process has compiled so far, and how many seconds this took in total."""
        return 0, 0.0

    def fallbacks(self) -> list[str] | None:
        """Returns the names of the operators that ran on the CPU instead of the device.

        Returns None if such operators are not counted.
        """
        return None

    def peak_memory_bytes(self) -> int | None:
        """Returns the peak memory of the device's allocator in this process. Returns None if it is unknown."""
        return None

    def device_name(self) -> str | None:
        """Returns the name of the hardware. Returns None if the framework does not report it."""
        return None
