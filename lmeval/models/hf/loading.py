# SPDX-License-Identifier: Apache-2.0
"""Loading a model and its tokenizer, and stating exactly which they are."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import attrs
import torch
import transformers

from lmeval.api.errors import MissingExtraError, ModelError
from lmeval.models.hf.settings import Settings

_LENGTH_NAMES = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len")
_DEFAULT_CONTEXT_LENGTH = 2048


@attrs.frozen
class Source:
    """Where a model comes from, in the arguments of transformers' `from_pretrained`."""

    name: str
    """A folder, or a name on the hub."""
    arguments: dict[str, Any]
    gguf: str | None
    """The GGUF file in it, or None."""

    @property
    def local(self) -> Path | None:
        """The folder or GGUF file on this machine; None for a model from the hub."""
        folder = Path(self.name)
        if not folder.is_dir():
            return None
        return folder / self.gguf if self.gguf else folder

    @property
    def title(self) -> str:
        """The name that stands in tables."""
        if self.gguf:
            return Path(self.gguf).stem
        local = self.local
        return local.resolve().name if local else self.name


def find_source(settings: Settings) -> Source:
    """Where the model that `settings` name is.

    Raises:
      ModelError: the path looks like one on this machine and there is nothing.
    """
    path = Path(settings.path).expanduser()
    arguments: dict[str, Any] = {"trust_remote_code": settings.trust_remote_code}
    if path.exists():
        if settings.revision is not None:
            raise ModelError(
                f"The setting 'revision' is for models on the hub; {settings.path} is on this "
                "machine."
            )
        if path.is_dir():
            return Source(str(path), arguments, None)
        if path.suffix != ".gguf":
            raise ModelError(
                f"The model {settings.path} is a file, which must be a .gguf; for other formats "
                "name the folder."
            )
        return Source(str(path.parent), arguments, path.name)
    arguments["revision"] = settings.revision or "main"
    name, gguf = settings.path, None
    if path.suffix == ".gguf":
        owner, _, rest = name.partition("/")
        repository, _, gguf = rest.partition("/")
        name = f"{owner}/{repository}"
    is_hub_name = (
        name.count("/") <= 1 and name[0] not in "./~\\" and (gguf or path.suffix != ".gguf")
    )
    if not is_hub_name:
        raise ModelError(f"The model {settings.path} does not exist: no such file or folder.")
    if settings.revision is None and "/" in name and path.parent.is_dir():
        # The hub would be asked again and again, and then only its own troubles told.
        raise ModelError(
            f"The model {settings.path} does not exist: the folder {path.parent} holds none; for "
            "a model of that name on the hub, say revision=main."
        )
    return Source(name, arguments, gguf)


def load(settings: Settings, source: Source) -> tuple[Any, Any]:
    """The model, ready to run, and its tokenizer.

    Raises:
      ModelError: they cannot be loaded, or the model is not a causal language model.
      MissingExtraError: a package for the format is missing.
    """
    device = _device(settings.device)
    arguments = dict(source.arguments)
    if source.gguf:
        arguments["gguf_file"] = source.gguf
    try:
        config = transformers.AutoConfig.from_pretrained(source.name, **arguments)
        if config.is_encoder_decoder:
            raise ModelError(
                f"The model {settings.path} is an encoder-decoder ({config.model_type}); only "
                "causal language models can be evaluated."
            )
        # The configuration is handed on: reading it out of a GGUF file takes seconds.
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            source.name, config=config, **arguments
        )
        model = transformers.AutoModelForCausalLM.from_pretrained(
            source.name, config=config, dtype=_dtype(settings.dtype, device, source), **arguments
        ).to(device)
    except ImportError as error:
        if source.gguf:
            raise MissingExtraError("Loading a GGUF file", "hf") from error
        raise ModelError(_failure(settings, source, error)) from error
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        raise ModelError(_failure(settings, source, error)) from error
    return model.eval().requires_grad_(False), tokenizer


def _failure(settings: Settings, source: Source, error: Exception) -> str:
    reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
    is_here = "" if source.local else " (there is no file or folder of that name here)"
    return f"The model {settings.path}{is_here} cannot be loaded: {reason}"


def _device(name: str) -> Any:
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ModelError(f"The device {name!r} cannot be used: {reason}") from error
    return device


def _dtype(name: str, device: Any, source: Source) -> Any:
    if name != "auto":
        return getattr(torch, name)
    # On a CPU half precision is slow; a GGUF file has no floating-point type of its own.
    return torch.float32 if device.type == "cpu" or source.gguf else "auto"


def identity(source: Source, model: Any) -> str | None:
    """Exactly which weights and tokenizer these are, None where that cannot be stated.

    For files on this machine the SHA-256 of their names and contents, hidden files and Markdown
    aside; for a model from the hub the commit.
    """
    local = source.local
    if local is None:
        commit = getattr(model.config, "_commit_hash", None)
        return None if commit is None else f"{source.name}@{commit} {source.gguf or ''}".strip()
    folder = local if local.is_dir() else local.parent
    files = sorted(local.rglob("*")) if local.is_dir() else [local]
    digest = hashlib.sha256()
    for file in files:
        name = file.relative_to(folder)
        is_hidden = any(part.startswith(".") for part in name.parts)
        if not file.is_file() or is_hidden or file.suffix == ".md":
            continue
        digest.update(f"{name.as_posix()} {_sha256(file)}\n".encode())
    return f"sha256:{digest.hexdigest()}"


def _sha256(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def own_context_length(model: Any, tokenizer: Any) -> int:
    """The most tokens that a model can see at once, by its configuration or its tokenizer's."""
    config = model.config.get_text_config()
    known = [getattr(config, name, None) for name in _LENGTH_NAMES]
    # A tokenizer without a limit of its own states an astronomical one.
    known.append(tokenizer.model_max_length if tokenizer.model_max_length < 1 << 30 else None)
    return next((int(length) for length in known if length), _DEFAULT_CONTEXT_LENGTH)


def end_tokens(model: Any, tokenizer: Any) -> frozenset[int]:
    """The tokens that end a text, by everything that states them."""
    ends: set[int | None] = {tokenizer.eos_token_id}
    for config in (model.config.get_text_config(), model.generation_config):
        stated = getattr(config, "eos_token_id", None)
        ends.update(stated if isinstance(stated, (list, tuple)) else [stated])
    return frozenset(end for end in ends if end is not None)


def parameter_counts(model: Any) -> tuple[int, int]:
    """The number of parameters, and of those that are not input or output embeddings."""
    total = sum(parameter.numel() for parameter in model.parameters())
    embeddings = {
        id(module.weight): module.weight.numel()
        for module in (model.get_input_embeddings(), model.get_output_embeddings())
        if module is not None
    }
    return total, total - sum(embeddings.values())
