import os
import subprocess
import sys

# In a process of its own, since importing torch_xla replaces parts of torch.nn.
MULTIPLY = """
import torch, torch_xla
from accelbench.engines.lightning import xla
{prepare}
product = torch.ones(4, 4, device=torch_xla.device()) @ torch.ones(4, 4, device=torch_xla.device())
print(torch_xla._XLAC._get_xla_tensors_hlo([product]))
"""


def hlo(prepare: str) -> str:
    """What XLA is given to compile for a product of two fp32 matrices."""
    done = subprocess.run(
        [sys.executable, "-c", MULTIPLY.format(prepare=prepare)],
        env={**os.environ, "PJRT_DEVICE": "CPU"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_fp32_is_multiplied_in_fp32_where_a_tpu_would_cast_it_to_bf16():
    assert "operand_precision={highest,highest}" not in hlo("")
    assert "operand_precision={highest,highest}" in hlo("xla.multiply_precisely()")
