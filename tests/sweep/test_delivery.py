import subprocess
import sys

import pytest

from accelbench.errors import UnknownChoiceError
from accelbench.sweep.run import make_sinks


def test_tracking_names_the_sinks_and_without_it_mlflow_is_not_imported(tmp_path):
    with pytest.raises(UnknownChoiceError, match=r"tracking=wandb.*mlflow, none"):
        make_sinks("wandb", tmp_path)
    script = "import sys, accelbench.sinks.sync, accelbench.sinks.ui; from pathlib import Path\n"
    script += "from accelbench.sweep.run import make_sinks\n"
    script += "print(make_sinks('none', Path('.')), 'mlflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout == "[] False\n"
