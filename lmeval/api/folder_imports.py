# SPDX-License-Identifier: Apache-2.0
"""Running a user's Python file so that it can import the files beside it, and nobody else can.

Two tasks may each have a `helper.py`. If their folders were put on `sys.path`, the second task
would be given the first one's module without a word. Here `import helper` in a file of a folder
means the file beside it, under a private name, also when it is imported late.
"""

from __future__ import annotations

import builtins
import importlib.util
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any


class FolderImports:
    """The modules of one folder, known to one another by plain names.

    Args:
      folder: where the files are.
      package: the private package under which they stand in `sys.modules`.
    """

    def __init__(self, folder: Path, package: str) -> None:
        self._folder = folder
        self._package = package
        self._lock = threading.RLock()
        self._builtins = {**vars(builtins), "__import__": self._import}
        for name in [name for name in sys.modules if f"{name}.".startswith(f"{package}.")]:
            del sys.modules[name]
        root = ModuleType(package)
        root.__path__ = [str(folder)]
        sys.modules[package] = root

    def load(self, name: str) -> ModuleType:
        """The module that `name` means in the folder, run on first use.

        Raises:
          ModuleNotFoundError: there is no such file.
        """
        full_name = f"{self._package}.{name}"
        with self._lock:
            if full_name in sys.modules:
                return sys.modules[full_name]
            file = self._file_of(name)
            spec = file and importlib.util.spec_from_file_location(full_name, file)
            if not spec or not spec.loader:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)
            module = importlib.util.module_from_spec(spec)
            vars(module)["__builtins__"] = self._builtins
            sys.modules[full_name] = module
            try:
                spec.loader.exec_module(module)
            except BaseException:
                del sys.modules[full_name]
                raise
            return module

    def _file_of(self, name: str) -> Path | None:
        place = self._folder.joinpath(*name.split("."))
        for file in (place.with_name(f"{place.name}.py"), place / "__init__.py"):
            if file.is_file():
                return file
        return None

    def _import(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        """What the `import` statement calls in files of the folder."""
        path = self._path_in_folder(name, globals or {}, level)
        if path is None:
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        leaf = self._load_with_parents(path)
        for attribute in fromlist or ():
            inner = f"{path}.{attribute}".lstrip(".")
            if not hasattr(leaf, attribute) and self._file_of(inner):
                setattr(leaf, attribute, self.load(inner))
        return leaf if fromlist else self.load(path.partition(".")[0])

    def _path_in_folder(self, name: str, asking: Mapping[str, Any], level: int) -> str | None:
        """The dotted path of a module of the folder; "" for the folder, None for another module."""
        if level == 0:
            return name if self._file_of(name.partition(".")[0]) else None
        package = str(asking.get("__package__", "")).split(".")
        base = ".".join(package[: len(package) - level + 1])
        if not f"{base}.".startswith(f"{self._package}."):
            return None
        return f"{base[len(self._package) + 1 :]}.{name}".strip(".")

    def _load_with_parents(self, path: str) -> ModuleType:
        module = sys.modules[self._package]
        parts = path.split(".") if path else []
        for end in range(1, len(parts) + 1):
            child = self.load(".".join(parts[:end]))
            setattr(module, parts[end - 1], child)
            module = child
        return module
