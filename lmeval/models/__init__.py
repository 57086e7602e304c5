# SPDX-License-Identifier: Apache-2.0
"""The models that come with lmeval, one module each; nothing is imported before it is asked for."""
