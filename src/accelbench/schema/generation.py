"""What was measured of a cell that generates text: raw times of each token."""

from dataclasses import dataclass, field

from accelbench.schema.ranges import Count, Duration


@dataclass(frozen=True, kw_only=True)
class Generation:
    """The generations of the steady state, in order; each is a step, of one sequence for each sample of the batch."""

    prefill_s: list[Duration] = field(default_factory=list)  # of each, until the first token of all its sequences
    # of each, the times of its further tokens: one decode step gives one token of each sequence
    decode_s: list[list[Duration]] = field(default_factory=list)
    cache_bytes: Count  # of the tensors of the key-value cache, once the last token was decoded

    def __post_init__(self) -> None:
        if len(self.prefill_s) != len(self.decode_s) or not all(self.decode_s):
            raise ValueError("decode_s should have the times of each generation's further tokens")
