"""The work of one step: operations and bytes, counted from the operators, not measured."""

from dataclasses import dataclass, field, replace

from accelbench.schema.ranges import Count


@dataclass(frozen=True, kw_only=True)
class Work:
    """The work of one step, over all devices that share its batch. An unknown count is None, never 0."""

    # floating-point operations of matrix products, convolutions, attention and recurrent layers; a multiply-add counts
    # as two. Elementwise work, reductions, normalisation and pooling are not counted.
    flops: Count | None = None
    # estimated memory traffic: each operator reads its inputs and writes its outputs once, without caches
    bytes: Count | None = None
    num_operators: Count | None = None  # operators launched on each device, without views and bare allocations
    # why a count is None: names of operators without a known count, or the error
    uncounted: list[str] = field(default_factory=list)

    def of_devices(self, num: int) -> "Work":
        """The work of `num` devices, if this is the work of one of them."""
        flops = None if self.flops is None else num * self.flops
        return replace(self, flops=flops, bytes=None if self.bytes is None else num * self.bytes)
