# SPDX-License-Identifier: Apache-2.0
"""The real small model as a chat model, read once for all files: that takes twenty seconds."""

import pytest
from real_models import need, need_smollm2


@pytest.fixture(scope="session")
def smollm2_chat():
    """SmolLM2 from the wheel's GGUF file; answers have at most 16 tokens."""
    need("torch", "transformers", "gguf", install="'lmeval[hf]'")
    need_smollm2()
    import torch

    from lmeval.models.smollm2 import SmolLM2Model

    torch.set_num_threads(1)  # several wait for each other on a busy machine

    return SmolLM2Model(chat_template=True, max_new_tokens=16)
