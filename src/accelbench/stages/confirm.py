"""The DVC stage `confirm`: measures the two best cells of the cheapest questions again, in turns, into confirmed/.

Exits 0 once every process has a record, even if some failed. Exits 2 if nothing could be started.
"""

import sys
from typing import TYPE_CHECKING

from accelbench.stages import stage

if TYPE_CHECKING:
    from rich.console import Console


def measure(console: "Console") -> None:
    """Asks and answers the questions."""
    from accelbench.isolation.hosts import Hosts
    from accelbench.project import pipelines_place
    from accelbench.stages import suites

    with Hosts() as hosts:
        suites.confirm(pipelines_place().root, console, hosts)


def main() -> int:
    """Runs the stage; returns its exit status."""
    return stage.run(["confirm"], measure)


if __name__ == "__main__":
    sys.exit(main())
