"""The three words of a test with two sides: here, since nothing below `schema/` may import its words."""

from enum import StrEnum

# Whether a percentile of latencies is at most its limit. `unknown`: neither is sure at 99 %.
Verdict = StrEnum("Verdict", {"passes": "sure pass", "fails": "sure fail", "unknown": "can't tell"})
