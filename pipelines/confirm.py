"""The DVC stage `confirm`: measures the two best cells of the cheapest questions again, in turns, into confirmed/.

Exits 0 once every process has a record, even if some failed. Exits 2 if nothing could be started.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from rich.console import Console

from accelbench import project
from accelbench.errors import UserError
from accelbench.isolation.hosts import Hosts
from accelbench.lifeline import end_with_parent
from accelbench.report.read import read_all
from accelbench.schema.text import clean
from accelbench.settings import params
from accelbench.sweep.confirming import confirm, questions


def main() -> int:
    """Asks and answers the questions; returns the exit status."""
    end_with_parent()
    sys.stdout.reconfigure(line_buffering=True, errors="backslashreplace")
    try:
        root = project.project_root()
        wanted = {str(suite) for suite in params.load(root).suites}
        sweeps = [sweep for sweep in read_all(root / "results") if sweep.folder in wanted]
        with Hosts() as hosts:
            chosen = questions(sweeps, params.confirm_s(root))
            confirm(chosen, root / project.CONFIRMED, Console(highlight=False), hosts)
    except UserError as error:
        print(f"error: {clean(str(error))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nInterrupted; every finished cell has its record.", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
