# SPDX-License-Identifier: Apache-2.0
"""The tasks that come with lmeval, one folder each; see docs/task_format.md."""
