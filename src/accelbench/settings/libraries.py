"""Suggests settings for networks of libraries, by their names."""

import re
from pathlib import Path

from accelbench.engines.targets import EXAMPLE, dotted_path
from accelbench.project import SAFETENSORS, TORCH_FILES
from accelbench.settings.config import mended, with_value

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


OWN = "model=custom model.target="
ANY = {"model": ["model=timm model.name=NAME", f"{OWN}{EXAMPLE}"], "data": ["data=folder data.path=FOLDER"]}


def words_for(name: str) -> list[str]:
    """Suggests settings for each network of a library, or of the user, that `name` may mean. May return [].

    For example, resnet18 means `model=torchvision model.name=resnet18`. For transformers, the settings name only the
    architecture, such as bert for bert-base-uncased.
    """
    if name.endswith((*TORCH_FILES, SAFETENSORS)):
        return [f"{OWN}{EXAMPLE} model.weights={name}"]
    last = re.split(r"[/:]|^(?:torchvision|timm)(?:\.models)?\.", name.lower())[-1]
    for spelled in (last, last.replace("-", "_"), last.replace("-", "")):
        matches = {library: re.search(pattern, spelled) for library, pattern in NAMES.items()}
        settings = [f"model={library} model.name={match[1]}" for library, match in matches.items() if match]
        if settings:
            return settings
    path = dotted_path(name)
    return [f"{OWN}{path}"] if path and (".py" in name or not Path(name).exists()) else []


def typed_for(word: str) -> list[str]:
    """Suggests settings for a word that is not readable, such as `resnet18`, `nets.py`, `gpu` or `batch_size:8`."""
    return mended(word) or with_value(word) or words_for(word)
