# SPDX-License-Identifier: Apache-2.0
"""`bigbench.models.model_utils`."""

from __future__ import annotations

from typing import overload

from lmeval.api import model as _model


@overload
def postprocess_output(
    text: str | bytes, max_length: int | None, stop_string: str | None, output_regex: str | None
) -> str: ...
@overload
def postprocess_output(
    text: list[str], max_length: int | None, stop_string: str | None, output_regex: str | None
) -> list[str]: ...
def postprocess_output(
    text: str | bytes | list[str],
    max_length: int | None,
    stop_string: str | None,
    output_regex: str | None,
) -> str | list[str]:
    """A model's text, or each of a list, cut as `lmeval.postprocess_output` cuts it.

    Zero and empty strings cut nothing. Bytes are taken for UTF-8.
    """
    if isinstance(text, list):
        return [postprocess_output(t, max_length, stop_string, output_regex) for t in text]
    if isinstance(text, bytes):
        text = text.decode()
    return _model.postprocess_output(
        text, max_length or None, stop_string or None, output_regex or None
    )
