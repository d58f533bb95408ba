"""What `accelbench --help` prints, and the settings and examples that `accelbench run --help` ends with."""

from collections.abc import Sequence

from accelbench.commands.command import Command

SETTINGS = """\
settings (in a project, params.yaml has the sweeps that `dvc repro` runs;
`accelbench --cfg job` prints every setting with its value)

 what is measured
  model=mlp|cnn|rnn|lstm|autoencoder|pets_cnn|mlp_cifar10|mlp_fashion_mnist_1|
        mlp_fashion_mnist_5|scaling_cnn_small|scaling_cnn_medium|
        scaling_cnn_large           the studies' networks; model.args.NAME=...
  model=timm|torchvision model.name=resnet50       any of their networks
  model=transformers model.name=bert               model.batch_args.seq_len=N
        model.task=classification|masked_lm|causal_lm
  model=custom model.target=my_package.nets.MyNet  your own network, with
        model.args.width=64, model.input_shape=[3,32,32] or model.batch,
        model.inputs, model.loss, model.samples, model.tokens: functions of
        your own; model.output=logits|any
  model=lightning model.target=my_package.LitNet   your LightningModule, with
        trainer.NAME=... for Lightning's Trainer
  model.weights=none|pretrained|FILE.safetensors   save_weights=true
  model.optimizer=adam|adamw|sgd model.learning_rate=0.001
  data=mnist|fashion_mnist|cifar10|cats_vs_dogs|random
  data=folder data.path=pictures/                  pictures by class
  data=arrays data.path=my_images.npz              data.root=FOLDER
  data.pipeline=array|jpeg|host|device|fresh       data.num_workers=N
  data.augment=none|flip|flip_shift                data.image_size=N

 where and how it runs
  mode=train|infer                 device=cpu|gpu|tpu|xla_cpu
  precision=fp16|bf16|fp32|tf32|fp64|fp16_mixed|bf16_mixed|int8
  batch_size=N                     threads=N (all cores by default)
  engine=lightning|onnxruntime|openvino|aotinductor|keras
  engine.backend=tensorflow|jax    engine.jit_compile=true|false (keras)
  channels_last=true  compile=true  freeze=true  cuda_graphs=true
  allocator=default|jemalloc|tcmalloc|glibc_reuse  flush_denormals=true
  devices=N scaling=strong|weak    engine.xla_processes=true|false
  executor=local|slurm|ray         the nodes of a cluster

 how long, how often, and where the records go
  protocol=window|steps|fit        warmup=N steps=N (steps), epochs=N (fit)
  window.width=0.02 window.measure_s=S             breakdown_s=S (0: none)
  repeats=N  repeat=N  seed=N      fresh processes of each cell
  timeout_s=S  retry=none|failed   out=FOLDER  tracking=mlflow|none
  suite=mnist_networks profile=quick|full          a project's sweeps

examples:
  accelbench model=cnn precision=bf16 batch_size=256 mode=infer
  accelbench -m model=mlp,cnn batch_size=32,128
  accelbench -m engine=lightning,keras model=mlp,lstm
  accelbench -m model=torchvision model.name=resnet18 compile=false,true
  accelbench plan suite=mnist_networks
  accelbench compare --run "model=cnn" "model=cnn precision=bf16"
"""


def overview(commands: Sequence[Command]) -> str:
    """The help of `accelbench` itself: every command with its summary."""
    listed = "\n".join(f"  {command.name:<12}{command.summary}" for command in commands)
    return f"""\
accelbench measures how fast a model trains and infers, and what is fastest.

usage: accelbench [run] [-m] [name=value ...]
       accelbench COMMAND [flags]; `accelbench COMMAND --help` lists them
       accelbench --version

commands:
{listed}

settings, such as model=cnn batch_size=32: `accelbench run --help` lists them
exit status: 0 done; 1 a cell failed unexpectedly, or --fail-if; 2 a mistake
"""
