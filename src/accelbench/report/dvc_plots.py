"""What `dvc plots show` needs: the data of its plot, and its HTML template with Vega embedded.

DVC's own template loads Vega from the internet. DVC writes the plotted file into a script of the page as it is, so the
file has only the columns that are plotted, without the characters that could end the script.
"""

from functools import cache
from pathlib import Path

import pandas as pd

from accelbench.errors import UserError, how_to_install
from accelbench.schema.serialize import writing

# The columns of cells.csv that .dvc/plots/throughput.json names.
COLUMNS = [
    "suite",
    "mode",
    "engine",
    "protocol",
    "model",
    "device",
    "precision",
    "batch_size",
    "samples_per_s",
    "samples_per_s_low",
    "samples_per_s_high",
]
PANEL = ["suite", "mode"]
HARMLESS = str.maketrans("<>&", "‹›＆")
# The page may load nothing, and evaluates no text as code: Vega interprets the expressions of a plot.
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
# DVC fills in scripts that call `vegaEmbed`: the calls are queued until a module, which runs after them, has Vega.
PAGE = Path(__file__).parent / "templates" / "dvc_plots.html"
VEGA_LITE = "5.20"  # DVC's templates need major release 5
EMBED = """
window.vegaEmbed = (place, plot, options) => vegaEmbed(place, plot, {...options, ast: true});
waiting.forEach(call => window.vegaEmbed(...call));
"""


def write(report: Path) -> None:
    """Writes throughput.csv and .dvc_plots.html into the folder `report`, which holds cells.csv.

    A cell that would be alone in its panel is left out, unless each would be.
    """
    # The page is hidden since it is a template: opened as it is, it is blank.
    every = pd.read_csv(report / "cells.csv", dtype=str, keep_default_na=False)[COLUMNS]
    drawn = every[every["samples_per_s"] != ""]
    several = drawn[drawn.duplicated(PANEL, keep=False)]
    cells = drawn if several.empty else several
    with writing(report / "throughput.csv") as file:  # which writes through no link
        cells.map(lambda text: text.translate(HARMLESS)).to_csv(file, index=False)
    with writing(report / ".dvc_plots.html") as file:
        file.write_text(page(), encoding="utf-8")


@cache  # the same for each report, and seconds of work
def page() -> str:
    """The page, with DVC's placeholders. Raises UserError: vl-convert-python, of the extra `dvc`, is missing."""
    try:
        import vl_convert
    except ImportError as error:
        raise UserError(f"DVC's plots need vl-convert-python: {how_to_install('dvc')}") from error
    bundle = vl_convert.javascript_bundle(EMBED, vl_version=VEGA_LITE).replace("</script", "<\\/script")
    return PAGE.read_text(encoding="utf-8").replace("POLICY", POLICY).replace("BUNDLE", bundle)
