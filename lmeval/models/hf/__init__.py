# SPDX-License-Identifier: Apache-2.0
"""The parts of the Hugging Face model; `lmeval.models.huggingface` is the door to them.

`forward` and whatever imports it need torch; `loading` and `keys_values` need transformers too.
"""
