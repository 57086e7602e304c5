# SPDX-License-Identifier: Apache-2.0
"""The one error of this package."""

from __future__ import annotations


class StatisticsError(ValueError):
    """Input without a statistic: a value that is no number, lengths that differ, a rate above 1."""
