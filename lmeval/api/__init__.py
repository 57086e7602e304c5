# SPDX-License-Identifier: Apache-2.0
"""The contract: what a task, a model, an example, a metric and a leaderboard are."""
