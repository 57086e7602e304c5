# SPDX-License-Identifier: Apache-2.0
"""BIG-bench-style abstract tasks for evaluating language models."""
