"""The sinks that `tracking` can name."""

from pathlib import Path

from accelbench.errors import UnknownChoiceError
from accelbench.sinks.base import Sink

TRACKING = ("mlflow", "none")


def make_sinks(tracking: str, root: Path) -> list[Sink]:
    """The sinks of a sweep, not opened yet.

    Args:
        tracking: one of `TRACKING`.
        root: the folder of the store.

    Raises:
        UnknownChoiceError: `tracking` is not one of `TRACKING`.
    """
    if tracking not in TRACKING:
        raise UnknownChoiceError("tracking", tracking, TRACKING)
    if tracking == "none":
        return []
    from accelbench.sinks.mlflow import MLflowSink  # its import takes over a second

    return [MLflowSink(root)]
