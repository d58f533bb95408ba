"""The DVC stage `sweep@<suite>`: measures every cell of the suite that has no record in results/<suite>/.

Exits 0 once every cell has a record, even if cells failed: if the stage failed, DVC would not build the report. Exits 2
if nothing could be started.
"""

import sys
from typing import TYPE_CHECKING

from accelbench.stages import stage

if TYPE_CHECKING:
    from rich.console import Console


def main() -> int:
    """Runs the suite named on the command line; returns the exit status."""
    (suite,) = sys.argv[1:]

    def measure(console: "Console") -> None:
        from accelbench.isolation.hosts import Hosts
        from accelbench.project import pipelines_place
        from accelbench.stages import suites

        (found,) = suites.suites(pipelines_place().root, [suite])
        with Hosts() as hosts:
            found.measure(console, hosts)

    return stage.run(["sweep", suite], measure)


if __name__ == "__main__":
    sys.exit(main())
