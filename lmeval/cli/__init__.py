# SPDX-License-Identifier: Apache-2.0
"""The command line: one module a verb; all printing is here."""
