# SPDX-License-Identifier: Apache-2.0
"""`python -m lmeval` is the same as `lmeval`."""

from lmeval.cli.main import console

console()
