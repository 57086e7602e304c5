# SPDX-License-Identifier: Apache-2.0
"""The folder of the task simple_arithmetic."""
