"""The page that `dvc plots show` puts its plots into: DVC's own loads Vega from a network, this one holds it."""

import vl_convert

# DVC fills in the plots, each with a script that calls `vegaEmbed`, and a line that refreshes the page. A module is run
# after those scripts: their calls wait for it.
PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
{refresh_tag}
<title>accelbench: DVC's plots</title>
<style>body { font-family: sans-serif; margin: 1.5em; }</style>
<script>const waiting = []; window.vegaEmbed = (...call) => waiting.push(call);</script>
<script type="module">BUNDLE</script>
</head>
<body>
{plot_divs}
</body>
</html>
"""
VEGA_LITE = "5.20"  # of the major release that DVC's templates are for
EMBED = "window.vegaEmbed = vegaEmbed; waiting.forEach(call => vegaEmbed(...call));"


def page() -> str:
    """The page, with DVC's placeholders."""
    return PAGE.replace(
        "BUNDLE", vl_convert.javascript_bundle(EMBED, vl_version=VEGA_LITE).replace("</script", "<\\/script")
    )
