"""Networks of torchvision that are no classifiers, and batches for them."""

import torch
from torchvision import models


def build(name):
    if name.startswith("raft"):
        return models.get_model(name, weights=None)
    args = {"num_classes": 4}
    if name not in models.list_models(models.video):
        args["weights_backbone"] = None
    if any(word in name for word in ("rcnn", "fcos", "retinanet")):  # which enlarge images to 800 pixels
        args |= {"min_size": 64, "max_size": 128}
    if "rcnn" in name:
        args |= {"box_batch_size_per_image": 16, "box_detections_per_img": 8}
    return models.get_model(name, weights=None, **args)


def pictures(batch_size, side=64):
    return torch.randn(batch_size, 3, side, side)


def pairs(batch_size):
    return pictures(batch_size, 128), pictures(batch_size, 128)


def clips(batch_size, frames=8, side=64):
    return torch.randn(batch_size, 3, frames, side, side)


def long_clips(batch_size):
    return clips(batch_size, 16, 224)


def marked(batch_size):
    boxes = torch.tensor([[4.0, 4.0, 40.0, 40.0], [8.0, 16.0, 60.0, 50.0]])
    target = {
        "boxes": boxes,
        "labels": torch.tensor([1, 2]),
        "masks": torch.ones(2, 64, 64, dtype=torch.uint8),
        "keypoints": torch.ones(2, 17, 3),
    }
    return list(pictures(batch_size)), [target for _ in range(batch_size)]


def num_pictures(batch):
    images, _ = batch
    return len(images)


def sum_of_losses(output, batch):
    return sum(output.values())


def mean_of_pixels(output, batch):
    return output["out"].square().mean()
