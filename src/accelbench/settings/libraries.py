"""Networks of libraries, by their names: what to write for a name that is none of accelbench's own."""

import re

# Library -> the names that it has, without those that few people try; no library is imported for a message.
NAMES = {
    "torchvision": r"^(alexnet|convnext_(?:tiny|small|base|large)|densenet\d+|efficientnet_(?:b[0-7]|v2_[sml])"
    r"|googlenet|inception_v3|maxvit_t|mnasnet\d_\d+|mobilenet_v\d\w*|regnet_[xy]_\w+|resnet(?:18|34|50|101|152)"
    r"|resnext\d+_\d+x\d+d|shufflenet_v2_\w+|squeezenet\d_\d|swin(?:_v2)?_[tsb]|vgg\d+(?:_bn)?|vit_[blh]_\d+|wide_resnet\d+_2)$",
    "timm": r"^((?=\w*\d)(?:beit|cait|coatnet|convnext|deit|densenet|dla|dpn|edgenext|efficientnet|eva|ghostnet|hrnet"
    r"|inception|levit|maxvit|mixer|mnasnet|mobilenet|mobileone|mobilevit|nfnet|regnet|repvgg|resmlp|resnest|resnet|resnext"
    r"|rexnet|seresne|swin|tf_|vgg|vit_|volo|wide_resnet|xception|xcit)\w*)(?:\.\w+)?$",
    "transformers": r"(?<![a-z])(albert|bart|bert|bloom|deberta|distilbert|electra|falcon|gemma[23]?|gpt2|gptj|llama"
    r"|mamba2?|mistral|mixtral|modernbert|mpnet|olmo2?|opt|phi3?|qwen[23]|roberta|rwkv|t5|xlm-roberta|xlnet)(?![a-z])",
}


def words_for(name: str) -> str | None:
    """The settings of a library's network: resnet18 -> `model=torchvision model.name=resnet18`; None if unknown.

    transformers has architectures: bert-base-uncased -> bert.
    """
    last = name.lower().rpartition("/")[2]
    for library, pattern in NAMES.items():
        if found := re.search(pattern, last):
            return f"model={library} model.name={found[1]}"
    return None
