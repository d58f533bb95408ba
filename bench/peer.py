"""Compares generation in accelbench and in optimum-benchmark with a bare loop of the same libraries, in turns.

optimum-benchmark is installed in its own folder, with its own transformers. It uses the torch of this environment.
"""

import os
import subprocess
import sys
from functools import partial

from bench.custom import by_generation, by_loop
from bench.own_networks import BATCH_SIZE, GENERATED, GPT2, MEASURE_S, NEW_TOKENS, PROMPT_TOKENS
from bench.turns import begin, compare_in_turns, new_folder, printed

NUM_ROUNDS = 6
# optimum-benchmark does not start with transformers 5.
PACKAGES = ["optimum-benchmark==0.6.0", "transformers<5", "tokenizers<0.23", "huggingface-hub<1", "accelerate<1.12"]
PACKAGES += ["datasets<4.5", "flatten-dict", "colorlog", "dill", "xxhash", "multiprocess", "httpx", "httpcore"]
SIDE = f"""
import tempfile
from optimum_benchmark import Benchmark, BenchmarkConfig, InferenceConfig, InlineConfig, PyTorchConfig
from transformers import GPT2Config, GPT2LMHeadModel
folder = tempfile.mkdtemp()
GPT2LMHeadModel(GPT2Config(**{GPT2})).save_pretrained(folder)
backend = PyTorchConfig(
    model=folder, processor=folder, library="transformers", task="text-generation", model_type="gpt2", device="cpu",
)
scenario = InferenceConfig(
    duration={MEASURE_S}, warmup_runs=5, input_shapes=dict(batch_size={BATCH_SIZE}, sequence_length={PROMPT_TOKENS}),
    generate_kwargs=dict(max_new_tokens={NEW_TOKENS}, min_new_tokens={NEW_TOKENS}),
)
found = Benchmark.launch(BenchmarkConfig(name="peer", launcher=InlineConfig(), backend=backend, scenario=scenario))
print(1000 * found.prefill.latency.p50, {BATCH_SIZE * (NEW_TOKENS - 1)} / found.decode.latency.p50)
"""


def main() -> None:
    """Prints a row for each figure of each tool: the ratio to the loop's figure, with its 95 % interval."""
    begin(38)
    loop = partial(by_loop, "generate")
    compare_in_turns([f"accelbench {column}" for column in GENERATED], 38, NUM_ROUNDS, by_generation, loop)
    with new_folder() as folder:
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder)]
        subprocess.run([*install, *PACKAGES], check=True)
        os.environ |= {"PYTHONPATH": str(folder), "USE_TF": "0"}
        peer = partial(printed, "-c", SIDE)
        compare_in_turns([f"optimum-benchmark {column}" for column in GENERATED], 38, NUM_ROUNDS, peer, loop)
