# SPDX-License-Identifier: Apache-2.0
"""The keys under which answers are stored, and by which equal requests are known."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from lmeval.engine.kinds import Kind


class KeyMaker:
    """Makes the keys of requests to one model of one kind.

    A key is a hash over the model's fingerprint, the kind, its settings and every text of the
    request, each framed by its length, so that different requests never run together.
    """

    def __init__(self, fingerprint: str, kind: Kind) -> None:
        self._base = hashlib.blake2b(digest_size=16)
        for text in (fingerprint, kind.name, json.dumps(kind.settings(), sort_keys=True)):
            self._base.update(_framed(text))

    def key(self, texts: Sequence[str]) -> bytes:
        """The key of the first occurrence of a request."""
        digest = self._base.copy()
        for text in texts:
            digest.update(_framed(text))
        return digest.digest()


def occurrence_key(key: bytes, occurrence: int) -> bytes:
    """The key of a further occurrence of a request, `occurrence` counted from 0."""
    if not occurrence:
        return key
    return hashlib.blake2b(b"%b#%d" % (key, occurrence), digest_size=16).digest()


def _framed(text: str) -> bytes:
    encoded = text.encode("utf-8", "surrogatepass")
    return b"%d:%b" % (len(encoded), encoded)
