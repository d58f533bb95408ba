"""What `accelbench --help` prints, and the settings and examples that `accelbench run --help` ends with."""

from collections.abc import Sequence

from accelbench.commands.command import Command

SETTINGS = """\
settings (in a project, params.yaml has the sweeps that `dvc repro` runs):
  model=mlp|cnn|rnn|lstm|autoencoder|pets_cnn  model.args.NAME, model.optimizer, model.learning_rate
        mlp_cifar10|mlp_fashion_mnist_1|mlp_fashion_mnist_5|scaling_cnn_small|scaling_cnn_medium|scaling_cnn_large
  model=timm|torchvision model.name=resnet50   any of their networks; model.weights=none|pretrained
  model=transformers model.name=bert           model.task=classification|masked_lm|causal_lm, model.args.NAME,
                                               model.batch_args.seq_len=N; docs/your-own-network.md
  model.weights=FILE.safetensors               save_weights=true (with protocol=fit mode=train)
  model=custom model.target=my_package.nets.MyNet model.args.width=64 model.input_shape=[3,32,32]
               model.output=logits|any         any: its output may be any structure of tensors, in inference
  device=cpu|gpu|tpu|xla_cpu                   mode=train|infer
  precision=fp16|bf16|fp32|tf32|fp64|fp16_mixed|bf16_mixed|int8
  engine=lightning|onnxruntime|openvino|aotinductor       the last three: inference on the CPU; docs/engines.md
  engine=keras                                 engine.backend=tensorflow|jax, engine.jit_compile=true|false,
                                               engine.steps_per_execution=N, engine.tpu=local|NAME
                                               engine.xla_processes=true|false (Lightning only); docs/devices.md
  batch_size=N (the study's by default)        threads=N (all cores by default)
  devices=N  scaling=strong|weak               N devices share one batch, or get one batch each; docs/devices.md
  protocol=window|steps|fit                    warmup=N steps=N (with steps), epochs=N (the study's by default)
  channels_last=true compile=true freeze=true cuda_graphs=true    each off by default; docs/options.md
  allocator=default|jemalloc|tcmalloc|glibc_reuse                 flush_denormals=true (for CPUs)
  suite=mnist_networks profile=quick|full      a project's axes; settings that you name win
  data=mnist|fashion_mnist|cifar10|cats_vs_dogs|random
  data=folder data.path=pictures/              pictures by class, data.image_size=N; data=arrays data.path=my_images.npz
  data.pipeline=array|jpeg|host|device         data.num_workers=N  data.augment=none|flip|flip_shift
  data.root=FOLDER                             where prepared data sets are kept
  repeats=N                                    N fresh processes of each cell: all cells once, then all again, ...
  seed=N  repeat=N  timeout_s=S  out=FOLDER  retry=none|failed  tracking=mlflow|none
  window.width=0.02 window.measure_s=S ...     how exact, how long; --cfg job prints all of them
  breakdown_s=S                                time for timing the phases of a step; 0 for none

examples:
  accelbench model=cnn device=cpu precision=bf16 batch_size=256 mode=infer
  accelbench -m model=mlp,cnn batch_size=32,128
  accelbench -m engine=lightning,keras model=mlp,lstm
  accelbench -m model=torchvision model.name=resnet18 mode=infer channels_last=false,true compile=false,true
  accelbench plan suite=mnist_networks
  accelbench compare --run "model=cnn precision=fp32" "model=cnn precision=bf16"
"""


def overview(commands: Sequence[Command]) -> str:
    """The help of `accelbench` itself: every command with its summary."""
    listed = "\n".join(f"  {command.name:<12}{command.summary}" for command in commands)
    return f"""\
accelbench measures how fast a model trains and infers on each device, precision and batch size.

usage: accelbench [run] [-m] [name=value ...]
       accelbench COMMAND [flags]; `accelbench COMMAND --help` lists them
       accelbench --version

commands:
{listed}

settings, such as model=cnn device=cpu batch_size=32: `accelbench run --help` lists them, with examples

exit status: 0 done; 1 a cell failed unexpectedly, or --fail-if holds; 2 a mistake, which stderr explains
"""
