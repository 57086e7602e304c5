# SPDX-License-Identifier: Apache-2.0
"""Intervals, comparisons and aggregates of scores. Needs numpy; knows nothing of tasks and models.

docs/statistics.md says which number is computed how, and when it is None.
"""

from lmeval.statistics.bootstrap import RowsStatistic, bootstrap_summary
from lmeval.statistics.errors import StatisticsError
from lmeval.statistics.groups import macro_mean, micro_mean
from lmeval.statistics.intervals import Interval
from lmeval.statistics.multiple import holm
from lmeval.statistics.paired import PairedComparison, Pairing, compare_paired, pair_keys
from lmeval.statistics.paired_resampling import compare_resampled
from lmeval.statistics.pass_at_k import mean_pass_at_k, pass_at_k
from lmeval.statistics.power import (
    expected_discordant_rate,
    minimal_detectable_difference,
    minimal_detectable_zero_one,
    rows_needed,
    rows_needed_zero_one,
)
from lmeval.statistics.summary import Summary, summarize
from lmeval.statistics.unpaired import UnpairedComparison, compare_unpaired

__all__ = [
    "Interval",
    "PairedComparison",
    "Pairing",
    "RowsStatistic",
    "StatisticsError",
    "Summary",
    "UnpairedComparison",
    "bootstrap_summary",
    "compare_paired",
    "compare_resampled",
    "compare_unpaired",
    "expected_discordant_rate",
    "holm",
    "macro_mean",
    "mean_pass_at_k",
    "micro_mean",
    "minimal_detectable_difference",
    "minimal_detectable_zero_one",
    "pair_keys",
    "pass_at_k",
    "rows_needed",
    "rows_needed_zero_one",
    "summarize",
]
