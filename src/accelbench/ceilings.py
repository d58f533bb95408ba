"""What a machine can do at most, as measured, and how near a cell came to it."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from accelbench.vocab import Bound, Precision, Verdict
from accelbench.work import Work

# Winograd's F(2x2, 3x3) takes 16 multiplications where a direct convolution takes 36 (Lavin and Gray, "Fast Algorithms
# for Convolutional Neural Networks", CVPR 2016): operations are counted by definition, so that a true rate may exceed
# the arithmetic's peak by so much, and by no more.
WINOGRAD = 2.25

MIXED = {Precision.fp16_mixed: Precision.fp16, Precision.bf16_mixed: Precision.bf16}


@dataclass(frozen=True, kw_only=True)
class Ceilings:
    """The best that was seen of one device. What the device can't do is absent or None, never 0.

    Attributes:
        device: its word, such as `gpu`.
        device_name: such as `NVIDIA H200`; None where only the fingerprint knows it.
        threads: CPU threads that computed; None where the library takes no limit.
        flops_per_s: true precision -> operations per second, a convolution's counted by definition.
        how: true precision -> which operation won.
        memory_bytes_per_s: bytes read and written; what a cache reads before it writes to it is not counted.
        host_to_device_bytes_per_s, device_to_host_bytes_per_s: from and to pinned memory; None for a device whose
            memory is the host's.
        launch_s: seconds until an operator's call returned, in a chain of them that nobody waited for.
        seconds: what the probe took.
        measured_at: UTC, ISO 8601.
    """

    device: str
    device_name: str | None
    threads: int | None
    flops_per_s: Mapping[str, float]
    how: Mapping[str, str]
    memory_bytes_per_s: float
    host_to_device_bytes_per_s: float | None
    device_to_host_bytes_per_s: float | None
    launch_s: float
    seconds: float
    measured_at: str

    def ceiling_of(self, precision: str) -> float | None:
        """Operations per second in `precision`; None where there is none.

        A mixed one may compute in either of its formats: the higher ceiling of the two holds.
        """
        lower = MIXED.get(Precision(precision))
        formats = [Precision(precision)] if lower is None else [lower, Precision.fp32]
        return max((self.flops_per_s[word] for word in formats if word in self.flops_per_s), default=None)

    def of_devices(self, num: int) -> "Ceilings":
        """Those of `num` such devices together, which launch at the same time."""
        both = (self.host_to_device_bytes_per_s, self.device_to_host_bytes_per_s)
        there, back = (None if rate is None else num * rate for rate in both)
        return dataclasses.replace(
            self,
            flops_per_s={word: num * rate for word, rate in self.flops_per_s.items()},
            memory_bytes_per_s=num * self.memory_bytes_per_s,
            host_to_device_bytes_per_s=there,
            device_to_host_bytes_per_s=back,
        )

    def joined(self, other: "Ceilings") -> "Ceilings":
        """The better of both in everything: whatever else ran on the machine only ever made a probe's result worse.

        Args:
            other: a second probe of the same device; its time is kept, and the seconds of both are added.
        """
        rates = {
            word: max(one.get(word, 0.0) for one in (self.flops_per_s, other.flops_per_s))
            for word in {**self.flops_per_s, **other.flops_per_s}
        }
        kept = {word: self if self.flops_per_s.get(word) == rate else other for word, rate in rates.items()}
        return dataclasses.replace(
            other,
            flops_per_s=rates,
            how={word: one.how[word] for word, one in kept.items()},
            memory_bytes_per_s=max(self.memory_bytes_per_s, other.memory_bytes_per_s),
            host_to_device_bytes_per_s=_best(self.host_to_device_bytes_per_s, other.host_to_device_bytes_per_s),
            device_to_host_bytes_per_s=_best(self.device_to_host_bytes_per_s, other.device_to_host_bytes_per_s),
            launch_s=min(self.launch_s, other.launch_s),
            seconds=self.seconds + other.seconds,
        )

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any] | None) -> "Ceilings | None":
        """The ceilings that `to_json` wrote, if it did."""
        return cls(**values) if values else None


def _best(one: float | None, other: float | None) -> float | None:
    return max((rate for rate in (one, other) if rate is not None), default=None)


def share(flops: int | None, seconds: float, ceiling: float | None) -> float | None:
    """How near a step came to the ceiling: its operations per second over the ceiling's.

    Args:
        flops: of the step; None where they are unknown.
        seconds: that it took; above 0.
        ceiling: operations per second; None where it is unknown.

    Returns:
        1 at the ceiling; None where it can't be told.
    """
    return None if flops is None or ceiling is None else flops / seconds / ceiling


def least_times(work: Work, ceilings: Ceilings, precision: str) -> dict[Bound, float]:
    """The seconds that each resource needs for a step, were there nothing else to wait for.

    Args:
        work: of the step.
        ceilings: of the device.
        precision: what the step computes in.

    Returns:
        An entry for each resource whose need is known. That of the memory is an estimate that knows no caches.
    """
    ceiling = ceilings.ceiling_of(precision)
    least: dict[Bound, float] = {}
    if work.flops is not None and ceiling is not None:
        least[Bound.compute] = work.flops / ceiling
    if work.bytes is not None:
        least[Bound.memory] = work.bytes / ceilings.memory_bytes_per_s
    if work.num_operators is not None:
        least[Bound.launch] = work.num_operators * ceilings.launch_s
    return least


def bound(
    work: Work | None,
    seconds: float,
    ceilings: Ceilings | None,
    precision: str,
    *,
    fused: bool = False,
    data_s: float | None = None,
    copy_s: float | None = None,
) -> Bound | None:
    """The resource that a step waits for longest.

    Data and copies are what was measured of the step: more than half of it. Else it is the resource whose least time
    is longest; an estimate longer than the whole step is wrong, and none.

    Args:
        work: of the step; None where it was not counted.
        seconds: of the step.
        ceilings: of the device; None where it was not probed.
        precision: what the step computes in.
        fused: whether operators are compiled or launched together: their bytes and launches are then not known.
        data_s: seconds that a step waits for its batch; None where it is unknown.
        copy_s: seconds that it takes to copy the batch in and the result out; None where nothing is copied.

    Returns:
        None where operations, ceilings, bytes or launches are unknown: the largest of some would be a guess.
    """
    for word, waited in ((Bound.data, data_s), (Bound.copy, copy_s)):
        if waited is not None and waited > seconds / 2:
            return word
    if work is None or ceilings is None or fused:
        return None
    least = least_times(work, ceilings, precision)
    if Bound.compute not in least:
        return None
    possible = {word: time_s for word, time_s in least.items() if word == Bound.compute or time_s <= seconds}
    return max(possible, key=lambda word: possible[word])


def verdict(rate: float, ceiling: float) -> Verdict:
    """Whether a rate can be true.

    Args:
        rate: operations per second, counted by definition.
        ceiling: the best that was measured.

    Returns:
        `below`; `above`: the ceiling or the rate is in doubt, probe again; `beyond`: more than Winograd's gain above
        it, which nothing explains.
    """
    if rate <= ceiling:
        return Verdict.below
    return Verdict.above if rate <= WINOGRAD * ceiling else Verdict.beyond
