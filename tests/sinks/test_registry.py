import subprocess
import sys

import pytest

from accelbench.errors import UnknownChoiceError
from accelbench.sinks.registry import make_sinks


def test_none_makes_no_sink(tmp_path):
    assert make_sinks("none", tmp_path) == []


def test_an_unknown_word_names_the_choices(tmp_path):
    with pytest.raises(UnknownChoiceError, match=r"tracking=wandb.*mlflow, none"):
        make_sinks("wandb", tmp_path)


def test_without_tracking_mlflow_is_not_imported():
    script = (
        "import sys, accelbench.sinks.sync, accelbench.sinks.ui; from accelbench.sinks.registry import make_sinks\n"
    )
    script += "from pathlib import Path; make_sinks('none', Path('.')); print('mlflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout == "False\n"
