"""Loads the model, its tokenizer and its adapter. A `.gguf` file is loaded as full weights (`unpacked`).

Not covered: how prompts and answers become tokens (`form`).
"""

from __future__ import annotations

import gc
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from kcurate.errors import InputError
from kcurate.hub import repository as hub
from kcurate.local_models.libraries import require
from kcurate.local_models.settings import LoraSettings, ModelSettings

# NAME or USER/NAME on the Hub; anything else is a path.
_HUB_NAME = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?", re.ASCII)


def dtype_of(settings: ModelSettings) -> Any:
    """The torch dtype that weights are loaded in."""
    import torch

    if settings.dtype != "auto":
        return getattr(torch, settings.dtype)
    return torch.bfloat16 if torch.cuda.is_available() else torch.float32


def locate(settings: ModelSettings) -> tuple[str, dict[str, Any]]:
    """The arguments of `from_pretrained`: a name, and keyword arguments.

    Raises:
        InputError: no model at that path. MissingDependencyError: the gguf package is not installed.
    """
    path = Path(settings.name)
    extra: dict[str, Any] = {"revision": settings.revision} if settings.revision else {}
    if settings.trust_remote_code:
        extra["trust_remote_code"] = True
    if path.suffix == ".gguf":
        if not path.is_file():
            raise InputError("no such file", where=settings.name, hint="--model")
        require(["gguf"], settings.name, "pip install 'kcurate[train]'")
        return str(path.parent), {**extra, "gguf_file": path.name}
    if path.is_file():
        raise InputError("not a folder", where=settings.name, hint="a model is a folder or a .gguf file")
    if not path.exists() and not _HUB_NAME.fullmatch(settings.name):
        raise InputError("no such folder", where=settings.name, hint="--model NAME or FOLDER")
    return settings.name, extra


def check_there(settings: ModelSettings) -> None:
    """Check that there is such a model; loading one that does not exist would retry for a minute.

    Raises:
        InputError: no such folder, and none on the Hub. RemoteError: the Hub cannot be asked.
    """
    name, _ = locate(settings)
    if not Path(name).exists():
        hub.check_model(name, settings.revision or None)


def load_tokenizer(settings: ModelSettings) -> Any:
    """The tokenizer, with a padding token.

    Raises:
        InputError: no such model, or it cannot be read.
    """
    from transformers import AutoTokenizer

    name, extra = locate(settings)
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, **extra)
    except (OSError, ValueError) as error:
        raise _no_model(settings, error) from error
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    if tokenizer.pad_token is None:
        raise InputError("its tokenizer has no end-of-text token", where=settings.name, hint="--model")
    return tokenizer


def load_model(settings: ModelSettings, *, adapter: Path | None = None, trainable: bool = False) -> Any:
    """The model, on the GPU if there is one, with a LoRA adapter if one is given.

    Raises:
        InputError: no such model or adapter, or it cannot be read.
    """
    import torch
    from transformers import AutoModelForCausalLM

    name, extra = locate(settings)
    attention = settings.attention
    if attention == "packed":
        from kcurate.local_models import packed

        packed.register()
    try:
        model: Any = AutoModelForCausalLM.from_pretrained(
            name, dtype=dtype_of(settings), attn_implementation=attention, **extra
        )
    except (OSError, ValueError, ImportError) as error:
        raise _no_model(settings, error) from error
    if adapter is not None:
        model = _with_adapter(model, adapter, trainable=trainable)
    if torch.cuda.is_available() and not trainable:
        model = model.to("cuda")
    return model


def end_tokens(model: Any, tokenizer: Any) -> set[int]:
    """The tokens that end a completion."""
    ends = getattr(model.generation_config, "eos_token_id", None)
    listed = ends if isinstance(ends, list) else [ends]
    return {token for token in (*listed, tokenizer.eos_token_id) if token is not None}


def free() -> None:
    """Free the memory of a model that is no longer used."""
    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def check_adapter(adapter: Path) -> None:
    """Check that a folder holds an adapter, before anything is loaded.

    Raises:
        InputError: it holds none.
    """
    try:
        peft_type = json.loads((adapter / "adapter_config.json").read_bytes())["peft_type"]
    except OSError as error:
        raise InputError("no adapter here", where=str(adapter), hint="run kcurate train sft first") from error
    except (ValueError, KeyError, TypeError) as error:
        raise InputError("not an adapter config", where=f"{adapter}/adapter_config.json") from error
    if not any((adapter / f"adapter_model.{suffix}").is_file() for suffix in ("safetensors", "bin")):
        raise InputError(f"a {peft_type} adapter without weights", where=str(adapter))


def _with_adapter(model: Any, adapter: Path, *, trainable: bool) -> Any:
    import torch
    from peft import PeftModel
    from safetensors import SafetensorError

    check_adapter(adapter)
    try:
        return PeftModel.from_pretrained(model, str(adapter), is_trainable=trainable)
    except torch.OutOfMemoryError:
        raise
    except (OSError, ValueError, RuntimeError, KeyError, SafetensorError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"does not fit the model: {reason}", where=str(adapter)) from error


def unpacked(settings: ModelSettings, folder: Path) -> ModelSettings:
    """A `.gguf` model as a folder of plain weights, made once; other models unchanged.

    Loading a `.gguf` file is slow (half a minute for 135M parameters), and a run loads its model often.

    Raises:
        InputError: no such file, or it cannot be read.
    """
    if Path(settings.name).suffix != ".gguf":
        return settings
    if not (folder / "config.json").is_file():
        part = folder.with_name(f"{folder.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        model = load_model(settings, trainable=True)
        for name in ("hf_quantizer", "is_quantized", "quantization_method"):  # the weights are dequantised
            vars(model).pop(name, None)
        vars(model.config).pop("quantization_config", None)
        model.save_pretrained(part)
        tokenizer = load_tokenizer(settings)
        _set_end_token(model.config.eos_token_id, tokenizer)
        tokenizer.save_pretrained(part)
        part.replace(folder)
    return replace(settings, name=str(folder), base=settings.shown)


def _set_end_token(token: Any, tokenizer: Any) -> None:
    """Give the tokenizer the model's end-of-text token: some releases read another one from .gguf files."""
    if isinstance(token, int) and token != tokenizer.eos_token_id:
        pads_with_it = tokenizer.pad_token_id == tokenizer.eos_token_id
        tokenizer.eos_token = tokenizer.convert_ids_to_tokens(token)
        if pads_with_it:
            tokenizer.pad_token = tokenizer.eos_token


def _no_model(settings: ModelSettings, error: Exception) -> InputError:
    reason = " ".join(str(error).split())[:200] or type(error).__name__
    return InputError(f"cannot load the model: {reason}", where=settings.name, hint="--model NAME or FOLDER")


def lora(settings: LoraSettings, model: Any) -> Any:
    """The `peft.LoraConfig` for this model.

    Raises:
        InputError: `lora.targets` names a layer that the model does not have.
    """
    import torch
    from peft import LoraConfig

    layers = [(name.rpartition(".")[2], layer) for name, layer in model.named_modules()]
    if absent := sorted(set(settings.targets) - {name for name, _ in layers}):
        linear = sorted({name for name, layer in layers if isinstance(layer, torch.nn.Linear)})
        raise InputError(
            f"the model has no layers {', '.join(absent)}",
            where="lora.targets",
            hint=f"its linear layers: {', '.join(linear)}",
        )
    return LoraConfig(
        r=settings.r,
        lora_alpha=settings.alpha,
        lora_dropout=settings.dropout,
        target_modules=list(settings.targets),
        task_type="CAUSAL_LM",
        bias="none",
    )
