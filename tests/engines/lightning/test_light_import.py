"""Lightning is imported without what torchmetrics may use, and users' code that needs it finds it."""

import importlib.util
import subprocess
import sys

import pytest

from accelbench.engines.lightning.spec import LIGHT_IMPORT

LIGHT = f"import sys, {LIGHT_IMPORT}, pytorch_lightning as pl, accelbench.engines.lightning.engine\n"
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


@pytest.mark.slow
def test_lightning_is_imported_without_it_and_a_module_that_needs_it_works():
    if missing := [name for name in ("transformers", "scipy") if importlib.util.find_spec(name) is None]:
        pytest.skip(f"not installed: {missing}")  # no part of the wheel's dependencies
    command = [sys.executable, "-W", "ignore", "-c", LIGHT + LEFT_OUT + USERS]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "['accuracy', 'accuracy_epoch', 'accuracy_step']"]
