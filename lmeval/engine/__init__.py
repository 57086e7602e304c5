# SPDX-License-Identifier: Apache-2.0
"""What stands between tasks and a model: store, batches, threads, time limits, retries."""
