"""Suggests settings for networks of libraries, by their names."""

import re

from accelbench.engines.targets import EXAMPLE
from accelbench.settings.config import with_value

# Library -> a pattern for the names of its usual networks, so that a message imports no library.
NAMES = {
    "torchvision": r"^(alexnet|convnext_(?:tiny|small|base|large)|densenet\d+|efficientnet_(?:b[0-7]|v2_[sml])"
    r"|googlenet|inception_v3|maxvit_t|mnasnet\d_\d+|mobilenet_v\d\w*|regnet_[xy]_\w+|resnet(?:18|34|50|101|152)"
    r"|resnext(?:50_32x4d|101_32x8d|101_64x4d)|shufflenet_v2_\w+|squeezenet\d_\d|swin(?:_v2)?_[tsb]|vgg\d+(?:_bn)?|vit_[blh]_\d+|wide_resnet\d+_2)$",
    "timm": r"^((?=\w*\d|convnext_)(?!vit_[blh]_\d|mobilenet_v|mnasnet\d|regnet_[xy]|efficientnet_v2)"
    r"(?!(?:resnet|densenet|vgg)_)(?:beit|cait|coatnet|convnext|deit|densenet|dla|dpn|edgenext|efficientnet|eva|ghostnet|hrnet"
    r"|inception|levit|maxvit|mixer|mnasnet|mobilenet|mobileone|mobilevit|nfnet|regnet|repvgg|resmlp|resnest|resnet|resnext"
    r"|rexnet|seresne|swin_\w+_patch|swinv2|tf_|vgg|vit_|volo|wide_resnet|xception|xcit)\w*)(?:\.(?!py)\w+)?$",
    "transformers": r"(?<![a-z.])(albert|bart|bert|bloom|deberta|distilbert|electra|falcon|gemma[23]?|gpt2|gptj|llama"
    r"|mamba2?|mistral|mixtral|modernbert|mpnet|olmo2?|opt|phi3?|qwen[23]|roberta|rwkv|t5|xlm-roberta|xlnet)(?![a-z]|\.[a-z]|.*\.py)",
}
ANY = {
    "model": ["model=timm model.name=NAME", f"model=custom model.target={EXAMPLE}"],
    "data": ["data=folder data.path=FOLDER"],
}


def words_for(name: str) -> list[str]:
    """Suggests settings for a network of a library, such as `model=torchvision model.name=resnet18` for resnet18.

    For transformers, the settings name only the architecture, such as bert for bert-base-uncased.
    """
    name = name.lower().rpartition("/")[2]
    matches = {library: re.search(pattern, name) for library, pattern in NAMES.items()}
    return [f"model={library} model.name={match[1]}" for library, match in matches.items() if match]


def typed_for(word: str) -> list[str]:
    """Suggests settings for a word that is no setting, such as `resnet18` or `gpu`."""
    return with_value(word) or words_for(word)
