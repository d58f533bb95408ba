"""What a step computes in: the share of its floating-point operations in each format."""

from collections.abc import Iterator
from dataclasses import dataclass, field

# NumPy's names of formats -> significant bits.
BITS = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8, "int8": 7, "uint8": 8}
MIN_SHARE = 0.01  # of the operations: below it, a format is not worth a word


@dataclass
class Products:
    """The matrix products of a step, as they ran."""

    # format, by NumPy's name -> floating-point operations whose first factor is in it
    flops: dict[str, int] = field(default_factory=dict)
    # names of operators that may be products of an unknown number of operations
    uncounted: set[str] = field(default_factory=set)
    # whose operations they are, in words: an engine may know less than those of all products
    of: str = "matrix products"

    @property
    def total(self) -> int:
        """Floating-point operations in all formats."""
        return sum(self.flops.values())

    @property
    def most(self) -> str | None:
        """The format of most operations; None without products."""
        return max(self.flops, key=self.flops.__getitem__) if self.total else None

    def shares(self) -> dict[str, float]:
        """The share of the operations in each format, the largest first."""
        formats = sorted(self.flops, key=self.flops.__getitem__, reverse=True)
        return {name: self.flops[name] / self.total for name in formats if self.flops[name]}

    def _others(self, asked: str, *, coarser: bool) -> Iterator[str]:
        for name, share in self.shares().items():
            is_coarser = BITS.get(name, 0) < BITS[asked]
            if name != asked and share >= MIN_SHARE and is_coarser == coarser:
                yield f"{100 * share:.0f} % of the operations of {self.of} ran in {name}, not in {asked}"

    def warnings(self, asked: str) -> Iterator[str]:
        """Sentences about operations in a coarser format than was asked for."""
        yield from self._others(asked, coarser=True)

    def notes(self, asked: str) -> Iterator[str]:
        """Sentences about operations in a finer format than was asked for, which a network may choose on purpose."""
        yield from self._others(asked, coarser=False)

    def observed(self) -> str:
        """What was observed, in words."""
        formats = ", ".join(f"{100 * share:.3g} % in {name}" for name, share in self.shares().items())
        return f"{self.of} of one step: {formats}" if formats else "one step, which has no matrix products"
