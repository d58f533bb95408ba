"""Runs a command of accelbench on cells of the engine that fails as told (`fakes`): a JSON object names them."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from accelbench import cli  # noqa: E402
from accelbench.isolation import hosts  # noqa: E402
from accelbench.settings import compose  # noqa: E402
from accelbench.settings.config import Retry  # noqa: E402
from accelbench.sweep import run, session, terminal  # noqa: E402, F401  # before the kills begin
from fakes import faulty_host, make_cell, make_options  # noqa: E402

if __name__ == "__main__":
    job = json.loads(sys.argv[1])
    cells = [make_cell("last", batch_size=size, timeout_s=job["timeout_s"]) for size in range(1, job["num"] + 1)]
    options = make_options(tracking=job["tracking"], out=job["out"], retry=Retry.failed)
    hosts.START_S, hosts.MARGIN_S = 10.0, 5.0  # how long a sweep waits for a host that is stopped
    faulty = hosts.Hosts(faulty_host)
    hosts.Hosts = lambda *_: faulty
    # Hydra takes longer than all the rest, and is over when the sweep begins.
    compose.asked = lambda words: [[] for _ in cells]
    compose.runs_of = lambda jobs: cells
    compose.cells_of = lambda configs: (cells, options)
    print("begins", flush=True)
    sys.exit(cli.main(job["words"]))
