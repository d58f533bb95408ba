"""The three words of a test with two sides."""

from enum import StrEnum

# `unknown`: neither is sure at 99 %. More requests, or a rate that is farther from the limit, may tell.
Verdict = StrEnum("Verdict", {"passes": "sure pass", "fails": "sure fail", "unknown": "can't tell"})
