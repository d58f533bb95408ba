"""`python -m bench.gpu_check.one_cell CELL FOLDER`: as accelbench.worker, for random images, which need no data set."""

import json
import os
import sys

from accelbench.engines.registry import host_spec
from accelbench.isolation.child import respond
from accelbench.isolation.messages import CellRequest, encode
from accelbench.schema.cell import Cell
from accelbench.schema.serialize import load


def main() -> None:
    """Runs the cell and prints its outcome as JSON."""
    cell = load(Cell, json.loads(sys.argv[1]))
    spec = host_spec(cell)
    os.environ.update(spec.environment)
    output = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what libraries print must not mix with the outcome
    request = CellRequest(cell=cell, engine=spec.engine, data_folder=sys.argv[2], timeout_s=cell.timeout_s)
    output.write(encode(respond(request)))
    output.close()


if __name__ == "__main__":
    main()
