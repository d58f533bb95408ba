"""Generates text. A causal language model of transformers continues random prompts, with a key-value cache.

One step of the clock is a generation. It begins with the prefill, which computes the whole prompt and returns the first
new token of each sequence. Decode steps follow. A decode step feeds the last token of each sequence, and returns the
most likely next token. All sequences get the same number of tokens, because none ends early. After each token, the step
waits for the device and records the time.
"""

import inspect
import time
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from accelbench.engines.pytorch.backends import Backend
from accelbench.engines.pytorch.own_batches import OwnTask, TokenMaker, TransformersWorkload
from accelbench.engines.pytorch.ranks import Ranks
from accelbench.errors import UserError
from accelbench.schema.cell import Cell
from accelbench.schema.measurement import Generation

CACHES = ("cache", "past_key_values")  # names of the argument of `forward`: from transformers 5.24 on; before


class Generates(OwnTask):
    """A task that continues prompts. After each generation, it appends a list with the time of each token to `times_s`.

    If the ids of a batch are longer than the prompts, the task feeds these further ids instead of the tokens that the
    network chooses (teacher forcing).
    """

    cache: Any = None  # the key-value cache of the last generation

    def __init__(self, network: nn.Module, workload: "GenerateWorkload") -> None:
        super().__init__(network, workload)
        self.generate, self.wait = workload.cell.generate, workload.wait
        self.is_static, self.compared, self.times_s = workload.is_static, workload.compared, workload.times_s
        parameters = inspect.signature(network.forward).parameters
        self.cache_name = next((name for name in CACHES if name in parameters), "")
        if not self.cache_name:
            name = workload.cell.model.definition
            raise UserError(
                f"model.name={name}: mode=generate needs a network with a key-value cache: use mode=infer"
            )
        # Only the last logits: otherwise the prefill would compute logits for the whole prompt.
        self.only_last = {"logits_to_keep": 1} if "logits_to_keep" in parameters else {}
        self._cached_for: nn.Module | None = None  # the network of the static cache

    def infer(self, network: nn.Module, batch: Any) -> Any:
        """Generates tokens for the prompts of a batch.

        Returns a list of tensors. First come the logits of the tokens that the output check compares (`compared`), a
        tensor (batch, vocabulary) for each token. The last tensor has the ids of all new tokens, (batch, tokens).
        """
        ids = batch["input_ids"]
        num_prompt = self.generate.prompt_tokens
        fed = ids[:, :num_prompt]
        forced = ids[:, num_prompt:]
        is_forced = forced.shape[1] > 0
        times_s, logits_of, tokens = list[float](), dict[int, Tensor](), list[Tensor]()
        now = time.perf_counter
        wait = self.wait
        # The prefill runs uncompiled, as in `generate` of transformers.
        called = getattr(network, "_orig_mod", network)
        began = now()
        cache = self._cache_of(network)
        for index in range(self.generate.new_tokens):
            output = called(input_ids=fed, use_cache=True, **{self.cache_name: cache}, **self.only_last)
            logits = output.logits[:, -1]
            token = logits.argmax(-1, keepdim=True)
            wait()
            ended = now()
            times_s.append(ended - began)
            began = ended
            tokens.append(token)
            called = network
            fed = forced[:, index : index + 1] if is_forced else token
            if index in self.compared:
                logits_of[index] = logits
        self.times_s.append(times_s)
        return [*(logits_of[index] for index in self.compared), torch.cat(tokens, 1)]

    def all_at_once(self, network: nn.Module, batch: Any) -> list[Tensor]:
        """Computes the result of `infer` for a batch with all ids, but in one forward pass and without a cache."""
        ids = batch["input_ids"]
        num_prompt = self.generate.prompt_tokens
        logits = network(input_ids=ids[:, :-1], use_cache=False).logits[:, num_prompt - 1 :]
        return [*(logits[:, index] for index in self.compared), logits.argmax(-1)]

    def _cache_of(self, network: nn.Module) -> Any:
        """Returns an empty key-value cache.

        All generations of a network use the same static cache, which has room for all tokens. A dynamic cache is used
        for only one generation.
        """
        from transformers import DynamicCache, StaticCache

        config: Any = network.config
        if not self.is_static:
            self.cache = None  # frees the memory of the last cache
            self.cache = DynamicCache(config=config)
        elif self._cached_for is network:
            self.cache.reset()
        else:
            num = self.generate.prompt_tokens + self.generate.new_tokens - 1
            self._cached_for = network
            self.cache = StaticCache(config=config, max_cache_len=num)
        return self.cache

    def cache_bytes(self) -> int:
        """Returns the bytes of the last generation's cache. The last token is not in it, because no step feeds it."""
        tensors = [getattr(layer, name, None) for layer in self.cache.layers for name in ("keys", "values")]
        return sum(tensor.nbytes for tensor in tensors if isinstance(tensor, Tensor))


class GenerateWorkload(TransformersWorkload):
    """A causal language model and its batches of prompts.

    In batches for output checks, further token ids follow the prompts.
    """

    task: Generates

    def __init__(self, cell: Cell, backend: Backend, ranks: Ranks) -> None:
        num, self.is_static, self.wait = cell.generate.new_tokens, cell.options.compile, backend.wait
        self.compared = [0, num - 1]  # the tokens whose logits are compared with logits in fp32
        self.times_s: list[list[float]] = []
        super().__init__(cell, backend, ranks)

    def _maker(self, num: int) -> TokenMaker:
        return TokenMaker(self.cell, num, self.cell.generate.prompt_tokens)

    def _task(self, network: nn.Module) -> Generates:
        self.config = network.config
        return Generates(network, self)

    def _forced(self, prompts: Any) -> dict[str, Tensor]:
        """Appends random ids to the prompts, for teacher forcing."""
        further = TokenMaker(self.cell, self.num_samples, self.cell.generate.new_tokens)()["input_ids"]
        return {"input_ids": torch.cat([prompts["input_ids"], further], 1)}

    def example(self) -> Any:
        return self._forced(super().example())

    def unseen(self) -> tuple[Any, bool]:
        unseen, is_unseen = super().unseen()
        return self._forced(unseen), is_unseen

    def task_in(self, dtype: torch.dtype) -> Any:
        return SimpleNamespace(infer=self.task.all_at_once)

    def generation(self, num: int) -> Generation:
        """Returns the times of the last `num` generations, and the size of the cache."""
        generations = self.times_s[len(self.times_s) - num :]
        prefill_s = [times_s[0] for times_s in generations]
        decode_s = [times_s[1:] for times_s in generations]
        return Generation(prefill_s=prefill_s, decode_s=decode_s, cache_bytes=self.task.cache_bytes())

    def tokens_per_sample(self) -> float:
        return self.cell.generate.new_tokens
