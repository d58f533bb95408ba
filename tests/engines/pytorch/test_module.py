import pytest
import torch

from accelbench.engines.pytorch.module import ImageTask, augmented
from accelbench.schema.vocab import Augment


def test_grey_bytes_become_floats_from_0_to_1_and_random_floats_stay_as_they_are():
    inputs = ImageTask(torch.float32).inputs(torch.tensor([[[0, 255]]], dtype=torch.uint8))
    assert inputs.tolist() == [[[0.0, 1.0]]]
    images = torch.randn(2, 3, 4, 4)
    assert ImageTask(torch.float32).inputs(images) is images


def test_one_logit_is_binary_cross_entropy():
    task, output, labels = ImageTask(torch.float32), torch.tensor([[0.3], [-1.2]]), torch.tensor([1, 0])
    expected = -(torch.sigmoid(output[0, 0]).log() + (1 - torch.sigmoid(output[1, 0])).log()) / 2
    assert task.loss(output, output, labels) == pytest.approx(expected.item())
    assert task.answers(output).tolist() == [1, 0]
    assert task.answers(torch.tensor([[0.1, 0.9, 0.3]])).tolist() == [1]


def numbered(num=400, height=16, width=24):
    """Images whose pixels hold their own position, in two channels."""
    rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    return torch.stack([rows, columns], -1).to(torch.uint8).expand(num, height, width, 2)


def test_a_flip_mirrors_half_of_the_images_and_a_shift_moves_by_up_to_an_eighth():
    torch.manual_seed(0)
    images = numbered()
    flipped = augmented(images, Augment.flip)
    mirrored = flipped[:, 0, 0, 1] == 23
    assert flipped[mirrored].equal(images[mirrored].flip(2))
    assert flipped[~mirrored].equal(images[~mirrored])
    assert 150 < mirrored.sum() < 250
    middle = augmented(images, Augment.flip_shift)[:, 8, 12].int()
    assert set((middle[:, 0] - 8).tolist()) == set(range(-2, 3))
