"""What a user brings, for `custom`: a transformer over tokens, as a plain module and as a LightningModule."""

import torch
from pytorch_lightning import LightningDataModule, LightningModule
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

VOCABULARY, WIDTH, NUM_LAYERS, SEQ_LEN, BATCH_SIZE, NUM_BATCHES = 1000, 256, 4, 128, 8, 8


class Tokens(nn.Module):
    """Logits of the next token, (batch, tokens, vocabulary), for ids (batch, tokens)."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, NUM_LAYERS, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids: Tensor) -> Tensor:
        """See the class."""
        logits: Tensor = self.head(self.layers(self.embedding(ids)))
        return logits


def make_batch(batch_size: int) -> dict[str, Tensor]:
    """Random ids, and the next ones as labels."""
    ids = torch.randint(VOCABULARY, (batch_size, SEQ_LEN))
    return {"ids": ids, "labels": ids.roll(-1, 1)}


def loss(output: Tensor, batch: dict[str, Tensor]) -> Tensor:
    """Cross-entropy of the next tokens."""
    return functional.cross_entropy(output.flatten(0, 1), batch["labels"].flatten())


class LitTokens(LightningModule):
    """`Tokens` with a training step and an optimiser of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.network = Tokens()

    def training_step(self, batch: list[Tensor], index: int) -> Tensor:
        """The loss of one batch."""
        ids, labels = batch
        return loss(self.network(ids), {"labels": labels})

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """AdamW."""
        return torch.optim.AdamW(self.parameters(), lr=1e-4)


def loader(batch_size: int) -> DataLoader[tuple[Tensor, ...]]:
    """Some batches in this process, again and again in the same order."""
    made = [make_batch(batch_size) for _ in range(NUM_BATCHES)]
    data = TensorDataset(*(torch.cat([batch[name] for batch in made]) for name in ("ids", "labels")))
    return DataLoader(data, batch_size=batch_size)


class TokenData(LightningDataModule):
    """Batches of `make_batch`."""

    def __init__(self, batch_size: int = BATCH_SIZE) -> None:
        super().__init__()
        self.batch_size = batch_size

    def train_dataloader(self) -> DataLoader[tuple[Tensor, ...]]:
        """See `loader`."""
        return loader(self.batch_size)
