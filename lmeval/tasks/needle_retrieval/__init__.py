# SPDX-License-Identifier: Apache-2.0
"""The folder of the task needle_retrieval."""
