# SPDX-License-Identifier: Apache-2.0
"""What a reasoning model thinks is no part of its answer."""

import pytest

from lmeval.models.hf.reasoning import Thought, split_reasoning


@pytest.mark.parametrize(
    ("text", "begun", "reasoning", "answer"),
    [
        ("<think>a\n\nb</think>42", False, "a\n\nb", "42"),
        ("\n<think>\na\n</think>\n\n42\n", False, "a", "42\n"),
        ("a\n\nb</think>\n42", True, "a\n\nb", "42"),
        ("only a closing marker</think>42", False, "only a closing marker", "42"),
        ("<think>never closed", False, "never closed", ""),
        ("never closed", True, "never closed", ""),
        ("  plain\n", False, "", "  plain\n"),
        ("", False, "", ""),
        ("<think></think>42", False, "", "42"),
        ("the tag <think> in the middle", False, "", "the tag <think> in the middle"),
    ],
)
def test_split(text, begun, reasoning, answer):
    assert split_reasoning(text, begun) == Thought(reasoning, answer)
