# SPDX-License-Identifier: Apache-2.0
"""What is drawn as one when scores over all rows are bootstrapped."""

import pytest

from lmeval.api.example import Example
from lmeval.api.rows_scoring import cluster_of


@pytest.mark.parametrize(
    ("extras", "cluster"),
    [({}, None), ({"cluster": None}, None), ({"cluster": ""}, None), ({"cluster": 0}, "0")],
)
def test_the_cluster_of_an_example(extras, cluster):
    example = Example(id="a", prompt="p", targets=("t",), metric="bleu", extras=extras)
    assert cluster_of(example) == cluster
