"""Generation by accelbench and by optimum-benchmark, each beside the same bare loop, in fresh processes, in turns.

optimum-benchmark is installed in a folder of its own; all run with the torch and the transformers of this environment.
"""

import subprocess
import sys
from functools import partial

from bench.custom import by_generation, by_loop
from bench.own_networks import BATCH_SIZE, GENERATED, GPT2, MEASURE_S, NEW_TOKENS, PROMPT_TOKENS
from bench.turns import begin, compare_in_turns, new_folder, printed_number

NUM_ROUNDS = 6
PACKAGES = ["optimum-benchmark==0.6.0", "accelerate", "datasets", "flatten-dict", "colorlog", "dill", "xxhash"]
PACKAGES += ["multiprocess", "httpx", "httpcore"]
SIDE = f"""
import os, sys
sys.path.append(sys.argv[1])
os.chdir(sys.argv[1])
from optimum_benchmark import Benchmark, BenchmarkConfig, InferenceConfig, InlineConfig, PyTorchConfig
from transformers import GPT2Config
GPT2Config(**{GPT2}).save_pretrained("gpt2")
backend = PyTorchConfig(
    model="gpt2", processor="gpt2", library="transformers", task="text-generation", model_type="gpt2", device="cpu",
    no_weights=True,
)
scenario = InferenceConfig(
    duration={MEASURE_S}, warmup_runs=5, input_shapes=dict(batch_size={BATCH_SIZE}, sequence_length={PROMPT_TOKENS}),
    generate_kwargs=dict(max_new_tokens={NEW_TOKENS}, min_new_tokens={NEW_TOKENS}),
)
found = Benchmark.launch(BenchmarkConfig(name="peer", launcher=InlineConfig(), backend=backend, scenario=scenario))
rate = {BATCH_SIZE * (NEW_TOKENS - 1)} / found.decode.latency.p50
print(1000 * found.prefill.latency.p50 if sys.argv[2] == "ttft_ms" else rate)
"""


def main() -> None:
    """Prints a row for each figure of each tool: its ratio to the loop's, with the 95 % interval."""
    begin(38)
    with new_folder() as folder:
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder)]
        subprocess.run([*install, *PACKAGES], check=True)
        for column in GENERATED:
            by_peer = partial(printed_number, "-c", SIDE, folder, column)
            for tool, call in (("accelbench", partial(by_generation, column)), ("optimum-benchmark", by_peer)):
                compare_in_turns(f"{tool} {column}", 38, NUM_ROUNDS, call, partial(by_loop, column))
