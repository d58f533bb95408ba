"""What was measured of a cell that served requests; the raw times of each request are in a file beside the record."""

import re
from dataclasses import dataclass, field
from typing import Annotated

from accelbench.schema.ranges import AtLeastOne, Count, Duration, NotNegative, Rate, Seconds, Share
from accelbench.schema.vocab import Verdict

Digest = Annotated[str, re.compile("[0-9a-f]{64}")]


@dataclass(frozen=True, kw_only=True)
class Quantile:
    """The latency that a share of the requests is within, with its bounds; None where too few requests tell."""

    percentile: NotNegative  # such as 99.9
    seconds: Seconds | None  # the latency
    low: Seconds | None = None  # its lower bound
    high: Seconds | None = None  # its upper bound


@dataclass(frozen=True, kw_only=True)
class Serving:
    """Requests and how they were answered. A latency is from the time that a request was due until its answer."""

    seed: Count  # of the arrivals
    num_requests: AtLeastOne  # that were due
    num_errors: Count = 0  # that raised or were never answered: misses
    error: str | None = None  # of the first that raised, in one line
    duration_s: Duration  # from the first request's due time until the last answer
    offered_per_s: Rate  # requests per second, as they were due
    served_per_s: NotNegative  # as they were answered
    latencies: list[Quantile] = field(default_factory=list)  # of p50, p90, p99, p99.9, and of the limit
    # num_missed, of requests that took longer than the limit or have no answer; None where there is no limit
    num_missed: Count | None = None
    miss_share_low: Share | None = None  # of their share, the lower bound; see `stats`
    miss_share_high: Share | None = None  # the upper bound
    num_cycles: Count | None = None  # that begin with a request that found nothing to do
    num_missed_cycles: Count | None = None  # those of them with a miss
    design_effect: Rate | None = None  # by how much misses in clusters widen the bounds
    verdict: Verdict | None = None  # whether the percentile is within the limit
    ended_early: str | None = None  # why not all requests were issued, such as a queue that grows
    batches: dict[str, Count] = field(default_factory=dict)  # requests of a batch -> how many such batches
    sizes: list[AtLeastOne] = field(default_factory=list)  # of batches that can be computed; empty: any
    num_padded: Count = 0  # places in batches that no request filled
    queue_s: Seconds | None = None  # of a request on average: until its batch began
    compute_s: Seconds | None = None  # of a request on average: until its batch was done
    busy_share: Share | None = None  # of the workers' time in which they computed
    late_p50_s: Seconds | None = None  # how late requests were issued
    is_late: bool = False  # whether that was too late, so that they were not those asked for
    late_p99_s: Seconds | None = None  # the 99th percentile of that
    null_p50_s: Seconds | None = None  # the generator's own latency, with a model that answers at once
    null_p99_s: Seconds | None = None  # the same, the 99th percentile
    null_rate: Rate | None = None  # requests per second: the highest honest rate of the generator here
    requests_digest: Digest | None = None  # sha256 of the file of raw times; None if it was not kept

    @property
    def num_answered(self) -> int:
        """Those with an answer, early or late."""
        return round(self.served_per_s * self.duration_s)
