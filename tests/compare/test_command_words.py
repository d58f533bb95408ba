import dataclasses

import pytest

from accelbench.compare.command_words import command_words
from accelbench.project import workplace
from accelbench.settings.compose import one_cell
from marks import slow


@pytest.mark.parametrize(
    "words",
    [
        "model=mlp mode=infer precision=bf16 batch_size=32 budget_s=20 window.measure_s=0.6 window.latency_steps=50",
        "model=mlp_cifar10 data=cifar10 mode=train data.augment=flip batch_size=8 threads=1 channels_last=true",
        "model=torchvision model.name=resnet18 mode=infer engine=openvino precision=int8 batch_size=16",
        slow("model=timm model.name=mobilenetv2_100 mode=infer compile=true data.pipeline=device"),
        "model=pets_cnn data=cats_vs_dogs mode=infer data.pipeline=jpeg",
        slow("model=mlp_fashion_mnist_1 data=mnist mode=train"),
        "model=mlp mode=infer engine=keras engine.jit_compile=true engine.steps_per_execution=8",
        slow("model=mlp mode=infer engine=keras engine.backend=jax engine.jit_compile=false"),
        "model=mlp mode=infer engine=keras device=tpu engine.tpu=10.0.0.0",
        "model=scaling_cnn_small data=random data.pipeline=device mode=infer protocol=steps steps=20 warmup=5",
        "model=custom model.target=torch.nn.Flatten mode=infer model.input_shape=[3,32,32] model.output=any",
        "model=custom model.target=my.Net model.batch=my.make model.loss=my.loss model.args.width=64 mode=train "
        "model.batch_args.seq_len=32 model.args.deep=true batch_size=4",
    ],
)
def test_the_words_measure_the_same_cell_again(words) -> None:
    cell, _ = one_cell(words)
    again, _ = one_cell(" ".join(command_words(cell, workplace().conf, names_cpu=True)))
    assert dataclasses.replace(again, suite=cell.suite) == cell


@pytest.mark.parametrize(
    "words",
    [
        "model=timm model.name=resnet18 mode=infer model.input_shape=[3,64,64]",
        slow("model=timm model.name=resnet18 mode=infer model.weights=pretrained"),
        "model=mlp mode=train model.args.widths=[8]",
        slow("model=mlp mode=train model.learning_rate=0.5"),
        "model=mlp mode=train seed=1",
        "model=mlp_cifar10 data=mnist mode=infer",
        "model=mlp mode=train protocol=fit",
        "model=custom model.target=my.Net 'model.args.text=two words' mode=infer",
    ],
)
def test_other_cells_have_no_words(words) -> None:
    assert command_words(one_cell(words)[0], workplace().conf) is None
