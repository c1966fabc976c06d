"""The public names of TVM's modules: `tvm_name_list.py QUESTIONS ANSWERS`, run where TVM is."""

import importlib
import json
import sys
from types import ModuleType


def public_names(path: str) -> list[str]:
    """What a package of TVM offers that is defined in TVM, and a file what it defines itself."""
    module = importlib.import_module(path)
    homes = "tvm." if hasattr(module, "__path__") else path
    found = []
    for name in sorted(dir(module)):
        value = getattr(module, name)
        if name.startswith("_") or isinstance(value, ModuleType):
            continue
        home = str(getattr(value, "__module__", None) or type(value).__module__)
        if home.startswith(homes):
            found.append(name)
    return found


if __name__ == "__main__":
    with open(sys.argv[1]) as asked:
        paths = json.load(asked)
    with open(sys.argv[2], "w") as answered:
        json.dump({path: public_names(path) for path in paths}, answered)
