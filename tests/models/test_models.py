"""Networks that others wrote: each runs, or is stopped by a limit that the message names, and none is accused.

One line a network: of timm the smallest of each module, of torchvision one of each family, of transformers tiny ones.
"""

from pathlib import Path
from typing import NamedTuple

import pytest

from accelbench.schema.cell import MODULE, DataSpec, Library, Mode, ModelOutput, ModelSpec, Task, TrainerSettings
from engines.cells import RANDOM, ran
from fakes import SHORT, make_cell
from models import packages

ENVIRONMENT = Path(__file__).parents[2] / ".venv-models"
INFER, TRAIN = Mode.infer, Mode.train


class Network(NamedTuple):
    group: str
    mode: Mode
    spec: ModelSpec
    data: DataSpec = RANDOM
    batch_size: int = 2


# Names by the side of the images: those that take any get small ones.
TIMM = {
    112: "deepseek_vit_412m",
    128: "test_byobnet convmixer_768_32 test_convnext cpubone_nano csatv2 cs3darknet_focus_s cspnext_tiny davit_tiny "
    "densenet121 dla34 dpn48b edgenext_xx_small test_efficientnet efficientvim_m1 efficientvit_b0 fasternet_t0 "
    "fastvit_t8 focalnet_tiny_srf gemma4_vit_167m ghostnet_050 hardcorenas_b hgnetv2_b0 sam2_hiera_tiny "
    "hrnet_w18_small iformer_t inception_next_atto inception_resnet_v2 inception_v3 inception_v4 lcnetv2_small "
    "lowformer_b0 test_mambaout poolformer_s12 mobilenetv3_small_050 mobilenetv5_base mobilevit_xxs "
    "naflexvit_base_patch16_siglip nasnetalarge nextvit_small test_nfnet pnasnet5large pvt_v2_b0 qwen3_vit_306m "
    "rdnet_tiny regnetv_040 repghostnet_050 repvit_m1 res2next50 resnest14d test_resnet resnetv2_18 rexnet_100 "
    "selecsls42 legacy_seresnet18 shvit_s1 skresnet18 starnet_s050 tiny_vit_5m_224 tresnet_m vgg11 "
    "ese_vovnet19b_slim_dw legacy_xception xception41p",
    160: "test_coatnet test_vit test_vit_relpos",
    224: "beit_base_patch16_224 cait_xxs24_224 coat_tiny convit_tiny deit_tiny_patch16_224 efficientformer_l1 "
    "efficientformerv2_s0 efficientvit_m0 gcvit_xxtiny hiera_tiny_224 levit_128 gmlp_ti16_224 mvitv2_tiny "
    "nest_tiny pit_ti_224 sequencer2d_s swiftformer_xs swin_tiny_patch4_window7_224 swinv2_cr_tiny_224 "
    "tnt_s_legacy_patch16_224 twins_svt_small visformer_tiny vit_tiny_r_s16_p8_224 samvit_base_patch16_224 "
    "vitamin_small_224 volo_d1_224 xcit_nano_12_p8_224",
    240: "crossvit_tiny_240",
    256: "eca_botnext26ts_256 vit_tiny_patch16_dinov3_qkvb swinv2_tiny_window8_256",
}
LARGE = "deepseek_vit_412m qwen3_vit_306m gemma4_vit_167m naflexvit_base_patch16_siglip"
CLASSIFIERS = {
    64: "alexnet densenet121 efficientnet_b0 googlenet mnasnet0_5 mobilenet_v2 mobilenet_v3_small "
    "regnet_x_400mf resnet18 shufflenet_v2_x0_5 squeezenet1_1 vgg11 convnext_tiny swin_t swin_v2_t",
    128: "inception_v3",
    224: "maxvit_t vit_b_32",
}
SEGMENTS = "deeplabv3_mobilenet_v3_large fcn_resnet50 lraspp_mobilenet_v3_large"
DETECTS = (
    "fasterrcnn_mobilenet_v3_large_320_fpn fcos_resnet50_fpn keypointrcnn_resnet50_fpn maskrcnn_resnet50_fpn "
    "retinanet_resnet50_fpn ssd300_vgg16 ssdlite320_mobilenet_v3_large"
)
VIDEO = "mc3_18 r2plus1d_18 r3d_18 swin3d_t"
# Of transformers: the number that each field of a configuration gets that is larger by default.
TINY = {
    64: "hidden_size d_model n_embd dim emb_dim embedding_size embedding_dim pooler_hidden_size attention_hidden_size "
    "lru_width",
    128: "vocab_size intermediate_size encoder_ffn_dim decoder_ffn_dim ffn_dim d_ff d_inner dim_ff dff hidden_dim "
    "feed_forward_size n_inner",
    2: "num_hidden_layers n_layer n_layers num_layers num_decoder_layers encoder_layers decoder_layers "
    "num_encoder_layers num_key_value_heads num_experts_per_tok",
    4: "num_attention_heads n_head n_heads num_heads encoder_attention_heads decoder_attention_heads attention_heads "
    "num_experts num_local_experts",
    16: "head_dim dim_head d_kv d_head attention_head_size",
    32: "moe_intermediate_size shared_expert_intermediate_size",
    8: "rotary_dim mamba_d_state",
}
SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
ARCHITECTURES = {
    Task.masked_lm: "albert bert big_bird camembert convbert data2vec-text deberta deberta-v2 distilbert electra ernie "
    "flaubert fnet funnel ibert layoutlm longformer megatron-bert mobilebert modernbert mpnet mra "
    "nystromformer rembert roberta roberta-prelayernorm roformer squeezebert tapas xlm xlm-roberta yoso",
    Task.classification: "t5 bart esm luke plbart umt5",
    Task.causal_lm: "bamba biogpt blenderbot bloom codegen cohere cpmant ctrl falcon gemma gemma2 gpt2 gpt_neox gptj "
    "granite llama mamba mbart mistral mixtral olmo openai-gpt opt pegasus phi phi3 qwen2 qwen2_moe qwen3 "
    "recurrent_gemma roc_bert rwkv stablelm starcoder2 xglm xlnet",
}
MODULES = {
    "LinearClassifier": ("Pictures", {}),
    **{
        name: ("Series", {"name": name})
        for name in ("TemporalFusionTransformer", "NHiTS", "NBeats", "DeepAR", "RecurrentNetwork", "TiDEModel")
    },
    **{name: ("Tables", {"name": name}) for name in ("CategoryEmbeddingModel", "FTTransformer", "GANDALF")},
}


def of_library(library, sides):
    for side, names in sides.items():
        for name in names.split():
            args = {"depth": 2} if name in LARGE else {}
            spec = ModelSpec(name=name, library=library, args=args, input_shape=(3, side, side), optimizer="sgd")
            yield Network(library, INFER, spec)


def of_torchvision(names, batch, mode=INFER, **more):
    functions = {key: f"models.networks.{name}" for key, name in {"batch": batch, **more}.items()}
    functions |= {"network": "models.networks.build", "factory": True, "output": ModelOutput.any}
    for name in names.split():
        spec = ModelSpec(name=name, library=Library.custom, args={"name": name}, **functions)
        yield Network("torchvision", mode, spec)


def of_transformers(mode):
    for task, names in ARCHITECTURES.items():
        for name in names.split():
            words = {"task": task, "batch_args": {"seq_len": 32}, "optimizer": "adamw"}
            yield Network("transformers", mode, ModelSpec(name=name, library=Library.transformers, **words))


def of_packages():
    for name in packages.NETWORKS:
        functions = {"network": "models.packages.build", "batch": "models.packages.batch"}
        functions |= {"args": {"name": name}, "batch_args": {"name": name}, "output": ModelOutput.any}
        yield Network("packages", INFER, ModelSpec(name=name, library=Library.custom, factory=True, **functions))
    for name, (data, args) in MODULES.items():
        made = f"models.modules.{data.lower()}"
        spec = ModelSpec(name=name, library=Library.lightning, network=made, factory=True, args=args)
        yield Network("packages", TRAIN, spec, DataSpec(name=MODULE, target=f"models.modules.{data}"), 4)


def tiny(name):
    """Arguments of the configuration `name` that make a network of it that has few parameters."""
    import transformers

    default = transformers.CONFIG_MAPPING[name]().to_dict()
    larger = {field: num for num, fields in TINY.items() for field in fields.split()}
    numbers = {field: num for field, num in larger.items() if isinstance(default.get(field), int)}
    args = {field: num for field, num in numbers.items() if default[field] > num}
    args |= {field: num for field, num in SPECIAL.items() if isinstance(default.get(field), int)}
    return args if default["vocab_size"] else {**args, "vocab_size": 128}


NETWORKS = [
    *of_library(Library.timm, TIMM),
    *of_library(Library.torchvision, CLASSIFIERS),
    *of_torchvision(SEGMENTS, "pictures"),
    *of_torchvision(SEGMENTS, "pictures", TRAIN, loss="mean_of_pixels"),
    *of_torchvision(DETECTS, "pictures"),
    *of_torchvision(DETECTS, "marked", TRAIN, loss="sum_of_losses", samples="num_pictures"),
    *of_torchvision(VIDEO, "clips"),
    *of_torchvision("mvit_v2_s s3d", "long_clips"),
    *of_torchvision("raft_small", "pairs"),
    *of_transformers(INFER),
    *of_transformers(TRAIN),
    *of_packages(),
]


@pytest.mark.slow
@pytest.mark.parametrize("network", NETWORKS, ids=lambda each: f"{each.group}-{each.spec.name}-{each.mode}")
def test_a_network_of_others_runs_and_is_accused_of_nothing(hosts, tmp_path, network):
    group, mode, spec, data, batch_size = network
    settings = {"batch_size": batch_size, "threads": 1, "breakdown_s": 0.0, "window": SHORT, "timeout_s": 200.0}
    if group == "packages":
        if not ENVIRONMENT.exists():
            pytest.skip("needs `make .venv-models/.installed`")
        settings["python"] = str(ENVIRONMENT)
    if data.name == MODULE:
        settings["trainer"] = TrainerSettings()
    if spec.library == Library.transformers:
        spec.args.update(tiny(spec.name))
    ran(hosts, make_cell(model=spec, data=data, mode=mode, **settings), tmp_path)
