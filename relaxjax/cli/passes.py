"""List the passes: their names, the opt level from which they run, and what they do.

`relaxjax opt` runs them. With --json, each pass is listed with its options too.
"""

import argparse
import inspect
import json
from typing import Any

from relaxjax.passes import PassFactory
from relaxjax.passes.registry import FACTORIES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print a JSON list")


def run(args: argparse.Namespace) -> int:
    factories = [FACTORIES[name] for name in sorted(FACTORIES)]
    if args.json:
        print(json.dumps([_record(factory) for factory in factories], indent=2))
        return 0
    width = max(len(factory.name) for factory in factories)
    for factory in factories:
        print(f"{factory.name:{width}}  {factory.opt_level}  {factory.summary}")
    return 0


def _record(factory: PassFactory[...]) -> dict[str, Any]:
    return {
        "name": factory.name,
        "opt_level": factory.opt_level,
        "kind": factory.kind,
        "required": list(factory.info.required),
        "summary": factory.summary,
        "options": [_option(parameter) for parameter in factory.parameters.values()],
    }


def _option(parameter: inspect.Parameter) -> dict[str, Any]:
    annotation = inspect.formatannotation(parameter.annotation)
    option: dict[str, Any] = {"name": parameter.name, "type": annotation}
    if parameter.default is not inspect.Parameter.empty:
        option["default"] = repr(parameter.default)
    return option
