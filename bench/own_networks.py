"""A user's networks, for the part `custom`: a transformer over tokens, as a plain module and as a LightningModule.

`python -m bench.own_networks CASE` runs a hand-written loop over it, and prints samples/s: the median of blocks of the
same length as accelbench's, after a warm-up.
"""

import random
import sys
import time
from collections.abc import Callable, Iterator
from itertools import chain, cycle, repeat
from statistics import median

import torch
from pytorch_lightning import LightningModule
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from bench.blocks import steps_per_s

VOCABULARY, WIDTH, NUM_LAYERS, SEQ_LEN, BATCH_SIZE, NUM_BATCHES = 1000, 256, 4, 128, 8, 8
WARMUP_S, BLOCK_S, MEASURE_S = 1.0, 0.3, 4.0
PROMPT_TOKENS, NEW_TOKENS = 64, 32
GPT2 = {"vocab_size": VOCABULARY, "n_embd": WIDTH, "n_layer": NUM_LAYERS, "n_head": 4}
GPT2 |= {"bos_token_id": 0, "eos_token_id": 0}
MIN_SAMPLES = 6  # minimum number of generations
GENERATED = ("ttft_ms", "decode_tokens_per_s")


class Tokens(nn.Module):
    """Computes the logits of the next token, shape (batch, tokens, vocabulary), from ids of shape (batch, tokens)."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, NUM_LAYERS, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids: Tensor) -> Tensor:
        logits: Tensor = self.head(self.layers(self.embedding(ids)))
        return logits


class Waits(nn.Module):
    """Sleeps for 10 ms, or an exponential time of 4 ms on average, or spins for 1 ms, and returns its input."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    def forward(self, values: Tensor) -> Tensor:
        end = time.perf_counter() + 0.001
        while self.how == "spins" and time.perf_counter() < end:
            pass
        if self.how != "spins":
            time.sleep(0.01 if self.how == "sleeps" else random.expovariate(250))
        return values


def one_number(batch_size: int) -> Tensor:
    """A random number for each sample."""
    return torch.randn(batch_size, 1)


def make_batch(batch_size: int) -> dict[str, Tensor]:
    """Random ids, with the next ids as labels."""
    ids = torch.randint(VOCABULARY, (batch_size, SEQ_LEN))
    return {"ids": ids, "labels": ids.roll(-1, 1)}


def loss(output: Tensor, batch: dict[str, Tensor]) -> Tensor:
    """The cross-entropy of the next tokens."""
    return functional.cross_entropy(output.flatten(0, 1), batch["labels"].flatten())


class LitTokens(LightningModule):
    """`Tokens` with its own training step, optimiser and batches."""

    def __init__(self) -> None:
        super().__init__()
        self.network = Tokens()

    def training_step(self, batch: list[Tensor], index: int) -> Tensor:
        ids, labels = batch
        return loss(self.network(ids), {"labels": labels})

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-4)

    def train_dataloader(self) -> DataLoader[tuple[Tensor, ...]]:
        return loader()


def loader() -> DataLoader[tuple[Tensor, ...]]:
    """Some batches in this process, again and again in the same order."""
    made = [make_batch(BATCH_SIZE) for _ in range(NUM_BATCHES)]
    data = TensorDataset(*(torch.cat([batch[name] for batch in made]) for name in ("ids", "labels")))
    return DataLoader(data, batch_size=BATCH_SIZE)


def train_step(*, lightning: bool) -> Callable[[], object]:
    """A training step over some batches. In Lightning's case, the batches come from a DataLoader, and AdamW is used."""
    source: Iterator[dict[str, Tensor]] = cycle([make_batch(BATCH_SIZE) for _ in range(NUM_BATCHES)])
    network = Tokens().train()
    optimizer: torch.optim.Optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, eps=1e-7)
    if lightning:
        source = ({"ids": ids, "labels": labels} for ids, labels in chain.from_iterable(repeat(loader())))
        optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4)

    def step() -> None:
        batch = next(source)
        optimizer.zero_grad()
        loss(network(batch["ids"]), batch).backward()
        optimizer.step()

    return step


def infer_step() -> Callable[[], object]:
    """An inference step over some batches."""
    source = cycle([make_batch(BATCH_SIZE)["ids"] for _ in range(NUM_BATCHES)])
    network = Tokens().eval()
    return torch.inference_mode()(lambda: network(next(source)))


@torch.inference_mode()
def generated() -> str:
    """The medians of generations after a warm-up: the columns `GENERATED` of cells that generate."""
    from transformers import AutoConfig, AutoModelForCausalLM, DynamicCache  # not at the top: this import takes seconds

    network = AutoModelForCausalLM.from_config(AutoConfig.for_model("gpt2", **GPT2)).eval()
    began = time.perf_counter()
    found = list[tuple[float, float]]()
    while (start := time.perf_counter()) < began + WARMUP_S + MEASURE_S or len(found) < MIN_SAMPLES:
        given = torch.randint(1, VOCABULARY, (BATCH_SIZE, PROMPT_TOKENS))
        cache = DynamicCache()
        times = [start]
        for _ in range(NEW_TOKENS):
            output = network(given, past_key_values=cache, use_cache=True, logits_to_keep=1)
            given = output.logits[:, -1].argmax(-1, keepdim=True)
            times.append(time.perf_counter())
        if start > began + WARMUP_S:
            found.append((1000 * (times[1] - start), BATCH_SIZE * (NEW_TOKENS - 1) / (times[-1] - times[1])))
    return " ".join(map(str, map(median, zip(*found, strict=True))))


if __name__ == "__main__":
    torch.manual_seed(0)
    if (case := sys.argv[1]) == "generate":
        print(generated())
    else:
        plain = infer_step() if case == "infer" else train_step(lightning=case == "lightning")
        print(BATCH_SIZE * steps_per_s(plain, WARMUP_S, BLOCK_S, MEASURE_S))
