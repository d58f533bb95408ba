"""The DVC stage `sweep@<suite>`: measures every cell of the suite that has no record in results/<suite>/.

Exits 0 once every cell has a record, even if cells failed: if the stage failed, DVC would not build the report. Exits 2
if nothing could be started.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from accelbench import cli, project
from accelbench.errors import UserError
from accelbench.lifeline import end_with_parent
from accelbench.schema.text import clean
from accelbench.settings import params


def main() -> int:
    """Runs the suite named on the command line as a Hydra multirun; returns the exit status."""
    end_with_parent()
    suite, *overrides = sys.argv[1:]
    try:
        root = project.project_root()
        retry = params.load(root).get("retry") or "none"
    except UserError as error:
        print(f"error: {clean(str(error))}", file=sys.stderr)
        return 2
    words = ["run", "-m", f"suite={suite}", f"retry={retry}", *overrides]
    status = cli.main(words, out=root / "results" / suite)
    return 0 if status == 1 else status


if __name__ == "__main__":
    sys.exit(main())
