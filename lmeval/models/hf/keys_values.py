# SPDX-License-Identifier: Apache-2.0
"""Selecting, copying and joining what a cache of keys and values holds.

A cache is a transformers `DynamicCache` made without a configuration, so that each layer holds
every token: keys and values are [rows, heads, columns, size]. Layers that borrow the keys and
values of another hold nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from transformers import DynamicCache


def new_cache() -> Any:
    """A cache that holds nothing."""
    return DynamicCache()


def _filled(cache: Any) -> Iterator[tuple[int, Any]]:
    for index, layer in enumerate(cache.layers):
        if layer.keys is not None and layer.keys.numel():
            yield index, layer


def _change(cache: Any, change: Callable[[Any], Any]) -> None:
    for _, layer in _filled(cache):
        layer.keys = change(layer.keys)
        layer.values = change(layer.values)


def keep_columns(cache: Any, columns: Any) -> None:
    """Reduce a cache to some columns, in the given order.

    Args:
      cache: changed in place.
      columns: numpy array of column numbers, ascending.
    """
    n = len(columns)
    if n == 0 or columns[-1] == n - 1:
        _change(cache, lambda tensor: tensor[:, :, :n])
        return
    chosen: dict[Any, Any] = {}

    def select(tensor: Any) -> Any:
        # Layers may live on several devices.
        index = chosen.setdefault(tensor.device, torch.as_tensor(columns, device=tensor.device))
        return tensor.index_select(2, index)

    _change(cache, select)


def copy_columns(cache: Any, columns: Any) -> Any:
    """A new cache with copies of some columns of a cache; arguments as for `keep_columns`."""
    copied = new_cache()
    for index, layer in _filled(cache):
        chosen = torch.as_tensor(columns, device=layer.keys.device)
        copied.update(
            layer.keys.index_select(2, chosen), layer.values.index_select(2, chosen), index
        )
    return copied


def keep_rows(cache: Any, rows: Sequence[int], n_columns: int) -> None:
    """Reduce a cache, in place, to some of its rows and to its last `n_columns` columns."""
    _change(cache, lambda tensor: tensor[list(rows), :, tensor.shape[2] - n_columns :])


def stack(caches: Sequence[Any], n_columns: int) -> Any:
    """One cache with the rows of several, each filled up with zeros on the left."""
    joined = new_cache()
    for index, _ in _filled(caches[0]):
        layers = [cache.layers[index] for cache in caches]
        joined.update(
            torch.cat([_left_padded(layer.keys, n_columns) for layer in layers]),
            torch.cat([_left_padded(layer.values, n_columns) for layer in layers]),
            index,
        )
    return joined


def _left_padded(tensor: Any, n_columns: int) -> Any:
    return torch.nn.functional.pad(tensor, (0, 0, n_columns - tensor.shape[2], 0))
