"""What one step of a cell has to do, counted rather than measured."""

from dataclasses import dataclass, field, replace


@dataclass(frozen=True, kw_only=True)
class Work:
    """The work of one step of one batch, over all devices that share it. What could not be counted is None, never 0.

    Attributes:
        flops: floating-point operations of matrix products, convolutions, attention and recurrent layers, two to a
            multiply-add; elementwise work, reductions, normalisation and pooling are not among them.
        bytes: estimated: each operator reads its inputs and writes its outputs once, as if there were no caches.
        num_operators: operators that are launched on each device; views and bare allocations are none.
        uncounted: why something is None: the names of operators without a known count, or what went wrong.
    """

    flops: int | None = None
    bytes: int | None = None
    num_operators: int | None = None
    uncounted: list[str] = field(default_factory=list)

    def of_devices(self, num: int) -> "Work":
        """The work of `num` devices, each of which does this for its share of the batch."""
        flops = None if self.flops is None else num * self.flops
        return replace(self, flops=flops, bytes=None if self.bytes is None else num * self.bytes)
