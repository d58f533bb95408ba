"""The DVC stage `report`: builds report/ from results/."""

import sys

from accelbench import project
from accelbench.errors import UserError
from accelbench.report import dvc_plots
from accelbench.report.build import build
from accelbench.schema.text import clean
from accelbench.settings import params


def main() -> int:
    """Builds the report and prints its path; returns the exit status."""
    try:
        place = project.pipelines_place()
        root = place.root
        page = build(
            root / "results",
            root / "report",
            params.costs(root),
            say=print,
            data=place.data,
            cache=place.cache,
            extension=params.report_extension(root),
        )
        dvc_plots.write(root / "report")
    except (UserError, OSError) as error:
        print(f"error: {clean(str(error))}", file=sys.stderr)
        return 2
    print(f"report: {page}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
