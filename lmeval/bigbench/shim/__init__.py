# SPDX-License-Identifier: Apache-2.0
"""Stand-ins for the modules that BIG-bench's task.py files import, as views of lmeval.

They are known as `bigbench.…` only while such a task is loaded or run; see `modules`.
"""
