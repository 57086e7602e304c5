# SPDX-License-Identifier: Apache-2.0
"""`bigbench.models.huggingface_models`."""

from typing import NoReturn

from lmeval.api.errors import TaskError


class BIGBenchHFModel:
    """In BIG-bench a TensorFlow GPT-2; here it says where Hugging Face models are to be had."""

    def __init__(self, *_: object, **__: object) -> NoReturn:
        raise TaskError(
            "A task asked for a model of its own, bigbench.models.huggingface_models; lmeval has "
            "Hugging Face models only as the model under test (--model hf)."
        )
