"""Plans that were found, kept on disk for the next process that plans the same program.

A plan is kept as places among the variables of its program, and that is known by what it computes
and by all that a plan goes by. Any plan of a program is right, so that what is kept decides of
memory and time alone.
"""

import json
import os
import warnings
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from relaxjax.ir.expr import Var
from relaxjax.ir.module import IRModule
from relaxjax.ir.structural import structural_hash
from relaxjax.ir.whole_file import write_whole
from relaxjax.ops.lax import matmul_precision, x64_enabled
from relaxjax.ops.platform import chosen_platform
from relaxjax.passes.infrastructure.kept_files import code, digest_of, versions

from ..batch.choosing import Parts
from ..program.program import Program
from ..program.schedule import Order
from .kept_counts import plans_folder
from .plan import Plan
from .planner import Planner


class KeptPlans:
    """The file of the plan of one program, planned with some options."""

    def __init__(self, mod: IRModule, options: Sequence[Any]) -> None:
        folder = plans_folder()
        goes_by = (
            versions(),
            code(),  # a plan goes by the forms of the program that it was made of
            structural_hash(mod),
            repr(options),
            chosen_platform(),
            x64_enabled(),
            matmul_precision(),
            os.environ.get("XLA_FLAGS", ""),
        )
        self.path: Path | None = None if folder is None else folder / f"{digest_of(goes_by)}.plan"

    def read(
        self, planner_of: Callable[[int], Planner]
    ) -> tuple[Planner, Plan, int | None, Parts | None] | None:
        """The plan that is kept, the bytes of its budget, and the parts in which a batch is taken.

        None where there is no plan.

        Each number of a form of the program leads to its planner.
        """
        if self.path is None:
            return None
        try:
            data = json.loads(self.path.read_bytes())
            planner = planner_of(data["form"])
            return planner, _plan(planner.program, data), data["budget"], _parts(data["parts"])
        except OSError:
            return None
        except (ValueError, KeyError, IndexError, TypeError) as error:
            warnings.warn(
                f"{self.path} holds no plan of memory that can be read, so that it is planned "
                f"anew: {error!r}",
                stacklevel=2,
            )
            return None

    def write(self, plan: Plan, form: int, budget: int | None, parts: Parts | None = None) -> None:
        if self.path is None:
            return
        data = {"form": form, "budget": budget, "parts": parts, **_data(plan)}
        with suppress(OSError):  # of a disk that is full, or a folder that has gone
            write_whole(self.path, json.dumps(data).encode())


def _parts(data: Any) -> Parts | None:
    """Parts as JSON has them."""
    if data is None:
        return None
    number, axes, again = data
    named = tuple((str(name), int(axis)) for name, axis in axes)
    return Parts(int(number), named, bool(again))


def _data(plan: Plan) -> dict[str, Any]:
    """A plan as JSON has it, its values as their places among the variables."""
    place = {var: at for at, var in enumerate(_variables(plan.program))}

    def reason(found: Hashable) -> Any:
        return {"value": place[found]} if isinstance(found, Var) else found

    orders = [
        [place[o.value[0]], o.value[1], reason(o.reason), place[o.moment]] for o in plan.orders
    ]
    forward = plan.program.forward
    kept = [at for at, step in enumerate(forward) if step.var in plan.kept]  # others are there
    return {"steps": len(plan.program.steps), "kept": kept, "late": plan.late, "orders": orders}


def _plan(program: Program, data: dict[str, Any]) -> Plan:
    """The plan of a program that was kept."""
    steps = program.steps
    if data["steps"] != len(steps):
        raise ValueError(f"it is of a program of {data['steps']} steps, and not of {len(steps)}")

    variables = _variables(program)

    def reason(found: Any) -> Hashable:
        if isinstance(found, dict):
            return variables[found["value"]]
        return tuple(found) if isinstance(found, list) else found

    orders = tuple(
        Order((variables[at], again), reason(why), variables[moment])
        for at, again, why, moment in data["orders"]
    )
    kept = frozenset(program.forward[at].var for at in data["kept"])
    return Plan(program, kept, bool(data["late"]), orders)


def _variables(program: Program) -> list[Var]:
    """What a program computes, and then what it only reads, which may be what waits."""
    read = (var for step in program.steps for var in step.inputs)
    return list(dict.fromkeys([*(step.var for step in program.steps), *read]))
