"""Lightning is imported without what torchmetrics may use, and users' code that needs it finds it."""

import subprocess
import sys

import pytest

from accelbench.engines.lightning.spec import LIGHT_IMPORT, host_spec
from accelbench.schema.cell import ModelSpec
from accelbench.schema.vocab import Library
from fakes import make_cell

LIGHT = f"import sys, {LIGHT_IMPORT}, pytorch_lightning as pl\n"
LEFT_OUT = "print([name for name in ('torchvision', 'transformers', 'scipy.signal') if name in sys.modules])\n"
USERS = """
import torch, torchmetrics
from torchmetrics import Accuracy, MeanMetric
from torchmetrics.text import Perplexity
import torchvision.models, transformers, scipy.signal, numpy

class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)
        self.accuracy = Accuracy(task="multiclass", num_classes=3)

    def training_step(self, batch, index):
        scores = self.layer(batch[0])
        self.accuracy(scores, batch[1])
        self.log("accuracy", self.accuracy, on_epoch=True)
        return torch.nn.functional.cross_entropy(scores, batch[1])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)

assert issubclass(Accuracy, torchmetrics.Metric) and issubclass(Perplexity, torchmetrics.Metric)
assert torchmetrics.functional.accuracy and torchmetrics.__version__ and numpy.Inf == numpy.inf
trainer = pl.Trainer(max_epochs=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
                     enable_model_summary=False, accelerator="cpu")
data = torch.utils.data.TensorDataset(torch.rand(8, 4), torch.randint(3, (8,)))
trainer.fit(Net(), torch.utils.data.DataLoader(data, batch_size=4))
print(sorted(trainer.callback_metrics))
"""


def output(code):
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True
    ).stdout


def test_lightning_is_imported_without_it_and_a_module_that_needs_it_works():
    lines = output(LIGHT + LEFT_OUT + USERS).splitlines()
    assert lines == ["[]", "['accuracy', 'accuracy_epoch', 'accuracy_step']"]


# Each in a child of the process that imported Lightning.
FORKS = """
import os
for code in (
    "import torchmetrics.text, torchmetrics.image\\nfrom torchmetrics import Accuracy",
    "from torchmetrics import *",
    "import torchmetrics\\nAccuracy = torchmetrics.Accuracy",
):
    if (child := os.fork()) == 0:
        exec(code)
        print(Accuracy.__name__, flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""


@pytest.mark.slow
def test_any_import_of_the_package_works():
    assert output(LIGHT + FORKS) == "Accuracy\n" * 3


def test_a_host_imports_once_what_the_users_module_names(tmp_path, monkeypatch):
    (tmp_path / "light_nets.py").write_text("import torch\n")
    (tmp_path / "slow_nets.py").write_text("from torchvision.models import resnet18\nimport torchmetrics\n")
    monkeypatch.syspath_prepend(tmp_path)
    preloads = {
        name: host_spec(make_cell(model=ModelSpec(name="Net", library=Library.custom, network=f"{name}.Net"))).preload
        for name in ("light_nets", "slow_nets", "nowhere")
    }
    assert preloads["light_nets"] == preloads["nowhere"]
    assert LIGHT_IMPORT in preloads["light_nets"]
    assert "torchvision" not in preloads["light_nets"]
    assert "torchvision" in preloads["slow_nets"]
    assert LIGHT_IMPORT not in preloads["slow_nets"]
