"""What was measured of a training to a target: the log of its events, and what each evaluation found."""

from dataclasses import dataclass, field

from accelbench.schema.ranges import AtLeastOne, Count, NotNegative, Number, Seconds
from accelbench.schema.serving import Digest
from accelbench.schema.vocab import Span


@dataclass(frozen=True, kw_only=True)
class Logged:
    """A span of the process, in seconds since it started; spans follow each other and do not overlap."""

    span: Span  # what the process did
    began_s: Seconds  # since it started
    ended_s: Seconds  # since it started

    @property
    def seconds(self) -> float:
        return self.ended_s - self.began_s


@dataclass(frozen=True, kw_only=True)
class Evaluated:
    """An evaluation on the validation part, after so much training."""

    num_steps: Count  # of training, before it
    num_samples: Count  # of training, before it
    epochs: NotNegative  # passes over the training part, such as 1.25
    value: Number | None  # of the metric; None if it is not finite
    began_s: Seconds  # since the process started
    ended_s: Seconds  # since the process started


@dataclass(frozen=True, kw_only=True)
class Unfinished:
    """What is kept of a process that ended without a measurement."""

    num_requests: Count = 0  # that were issued
    num_answered: Count = 0  # of them
    requests_digest: Digest | None = None  # sha256 of the file with their raw times; None without one
    evaluations: list[Evaluated] = field(default_factory=list)  # of a training to a target


@dataclass(frozen=True, kw_only=True)
class TargetTraining:
    """A training to a target, of one process."""

    num_validation: AtLeastOne | None  # samples that it is evaluated on; None if the user's module does not tell
    deterministic: bool  # whether equal seeds give equal results on this machine, as far as the engine can promise
    log: list[Logged] = field(default_factory=list)  # in the order of time
    compile_s: Seconds = 0.0  # of the log's spans of training, the time of compilations
    evaluations: list[Evaluated] = field(default_factory=list)
    hit: Count | None = None  # the evaluation that reached the target; None: none of them did
    stayed: bool | None = None  # whether the one after it reached it, too; None without one
    tested: Number | None = None  # the metric on the test set, of the weights at the end
    planned_in: str | None = None  # the sweep that first planned it: seeds that were added after a look are another's

    def __post_init__(self) -> None:
        if (self.hit or 0) >= len(self.evaluations):
            raise ValueError("evaluations should have that of the hit, and at least one")
