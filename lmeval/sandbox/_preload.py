# SPDX-License-Identifier: Apache-2.0
"""The modules that predictions may import; all are loaded before the worker is locked down."""

from __future__ import annotations

import codecs
import importlib
import site
import sys
import warnings
from collections.abc import Sequence


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


PURE_MODULES = _words(
    "__future__ abc array ast base64 binascii bisect calendar cmath codecs collections contextlib "
    "copy csv dataclasses datetime decimal difflib enum fractions functools gc graphlib hashlib "
    "heapq html inspect io itertools json keyword math numbers operator pprint random re reprlib "
    "secrets statistics string struct sys textwrap time timeit traceback types typing unicodedata "
    "warnings weakref zlib"
)

# Submodules and codecs that honest code reaches without naming them; nothing can be read from disk
# later.
_WARM_MODULES = ("collections.abc", "_strptime", "html.entities", "html.parser")
_WARM_CODECS = _words(
    "ascii latin-1 cp1252 utf-8-sig utf-16 utf-16-le utf-16-be utf-32 utf-7 unicode_escape "
    "raw_unicode_escape rot13 hex base64"
)
_NUMPY_PARTS = ("numpy.random", "numpy.linalg", "numpy.fft")


def load(modules: Sequence[str]) -> None:
    """Loads the pure modules and further ones, then closes the ways to load any more.

    Args:
      modules: names of further modules; numpy brings the parts that it loads late.

    Raises:
      ImportError: one of them is not installed for this interpreter.
    """
    for name in PURE_MODULES + _WARM_MODULES:
        importlib.import_module(name)
    for codec in _WARM_CODECS:
        codecs.lookup(codec)
    if modules:
        # The interpreter was started without its site-packages.
        site.main()
        for name in modules:
            importlib.import_module(name)
        if "numpy" in modules:
            for name in _NUMPY_PARTS:
                importlib.import_module(name)
    warnings.simplefilter("ignore")
    sys.path.clear()
    sys.path_importer_cache.clear()
