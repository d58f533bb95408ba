import os
import subprocess
import sys

from accelbench.cli import main


def test_it_opens_the_viewer_of_a_folders_report_in_the_browser(here):
    page = here / "runs" / "mine" / "report" / "index.html"
    page.parent.mkdir(parents=True)
    page.touch()
    (here / "browser").write_text('#!/bin/sh\necho "$1" > opened\n')
    (here / "browser").chmod(0o755)
    for display in ({"DISPLAY": ":0"}, {}):
        environment = {**os.environ, "BROWSER": f"{here}/browser %s", **display}
        words = [sys.executable, "-m", "accelbench.cli", "view", "runs/mine"]
        said = subprocess.run(words, env=environment, check=True, capture_output=True, text=True).stdout
        assert said.startswith(f"Viewer: {page.as_uri()}#viewer (left or p, right or n, Escape or q)\n")
        assert ("no browser found on this machine: open the address in yours" in said) == (not display)
        assert [path.read_text() for path in here.glob("opened")] == [f"{page.as_uri()}#viewer\n"] * bool(display)
        (here / "opened").unlink(missing_ok=True)
    assert main(["view", "runs/none"]) == 2
