"""The best memory plans there are, by integer programming, to hold those of the planner against."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import Bounds, milp
from scipy.sparse import csr_array

from relaxjax import Constant, DataflowVar, TensorType, Tuple, Var
from relaxjax.ir.function import DataflowBlock, Function, SeqExpr, VarBinding
from relaxjax.passes.memory.program.program import Program
from relaxjax.passes.memory.program.step import Step


def random_program(seed: int, forward: int, backward: int) -> Program:
    """A forward chain with skips, and a way back on which each step needs some of its values.

    Every value is stored, and each waits for the one before it, so their order is the only one.
    """
    random = np.random.default_rng(seed)
    steps: list[Step] = []

    def add(inputs: Iterable[Var], size: int, flops: int) -> Var:
        var = DataflowVar(f"v{len(steps)}", TensorType((size // 4,), "float32"))
        binding = VarBinding(var, Constant(np.zeros((), "float32")))
        unique = tuple(dict.fromkeys(inputs))
        steps.append(Step(var, unique, size // 4, size, flops, binding, None, True))
        return var

    def size() -> int:
        return int(random.integers(1, 33)) * 1024

    x = Var("x", TensorType((1,), "float32"))
    values = [add([x], size(), 1)]
    for _ in range(forward - 1):
        skip = [values[random.integers(len(values))]] if random.random() < 0.3 else []
        values.append(add([*values[-1:], *skip], size(), int(random.integers(1, 1000))))
    loss = add(values[-1:], 4, 1)
    last = loss
    for place in range(backward):
        near = forward - 1 - place * forward // backward
        wanted = {max(0, near - int(random.integers(0, 2))), near}
        last = add([last, *(values[i] for i in sorted(wanted))], size(), 100)
    last = add([last], 4, 1)  # a result may hold what comes before it, and this is too small
    block = DataflowBlock(tuple(step.binding for step in steps))
    body = SeqExpr((block,), Tuple((loss, Tuple((last,)))))
    return Program(Function((x,), body), tuple(steps), forward + 1)


@dataclass
class _Linear:
    """A linear program over columns that are named as they come up."""

    columns: dict[tuple[object, ...], int] = field(default_factory=dict)
    rows: list[tuple[Mapping[int, float], float]] = field(default_factory=list)

    def at(self, *name: object) -> int:
        return self.columns.setdefault(name, len(self.columns))

    def at_most(self, terms: Mapping[int, float], limit: float) -> None:
        self.rows.append((terms, limit))

    def least(self, cost: dict[int, float], whole: Iterable[int], seconds: float) -> float | None:
        """The least cost; None where nothing fits."""
        count = len(self.columns)
        entries = [(r, c, v) for r, (terms, _) in enumerate(self.rows) for c, v in terms.items()]
        at, to, values = zip(*entries, strict=True)
        matrix = csr_array((values, (at, to)), shape=(len(self.rows), count))
        integral = np.zeros(count)
        integral[list(whole)] = 1
        costs = np.zeros(count)
        costs[list(cost)] = list(cost.values())
        found = milp(
            costs,
            integrality=integral,
            bounds=Bounds(0, 1),
            constraints=(matrix, -np.inf, np.array([limit for _, limit in self.rows])),
            options={"time_limit": seconds, "mip_rel_gap": 1e-6},
        )
        if found.status == 2:
            return None
        assert found.status == 0, found.message
        return float(found.fun)


def least_recomputation(program: Program, budget: int, seconds: float = 60) -> float | None:
    """The fewest flops that must be computed again for a peak within a budget.

    A value is kept, or computed again at any one step of the way back and held as long as it is
    needed. The bytes are counted where each step runs; those of what is used on the way to a value
    only, between two steps, are not, so this is a lower bound where they decide.
    """
    forward, backward = program.forward, program.backward
    linear = _Linear()
    places = {step.var: i for i, step in enumerate(forward)}
    size = [0 if step.var in program.results else step.size for step in forward]
    last_use = list(range(len(forward)))
    for i, step in enumerate(forward):
        for var in step.inputs:
            if var in places:
                last_use[places[var]] = i
    needed = [{places[v] for v in step.inputs if v in places} for step in backward]
    for now in range(len(forward)):
        fixed = sum(size[v] for v in range(now + 1) if last_use[v] >= now)
        kept = {linear.at("keep", v): size[v] for v in range(now + 1) if last_use[v] < now}
        linear.at_most(kept, budget - fixed)
    for t in range(len(backward)):
        _add_step(linear, program, needed, size, t, budget)
    for v in range(len(forward)):
        times = [linear.at("again", v, t) for t in range(len(backward))]
        linear.at_most(dict.fromkeys(times, 1.0), 1)
    cost = {
        linear.at("again", v, t): float(forward[v].flops)
        for v in range(len(forward))
        for t in range(len(backward))
    }
    keeps = [linear.at("keep", v) for v in range(len(forward))]
    return linear.least(cost, [*cost, *keeps], seconds)


def _add_step(
    linear: _Linear, program: Program, needed: list[set[int]], size: list[int], t: int, budget: int
) -> None:
    """What must be there when a step of the way back runs, and what that takes."""
    forward, backward = program.forward, program.backward
    places = {step.var: i for i, step in enumerate(forward)}
    held: dict[int, float] = {}
    for v, step in enumerate(forward):
        copy, again, keep = linear.at("copy", v, t), linear.at("again", v, t), linear.at("keep", v)
        before = {linear.at("copy", v, t - 1): -1.0} if t else {}
        linear.at_most({copy: 1.0, again: -1.0, **before}, 0)
        if v in needed[t]:
            linear.at_most({keep: -1.0, copy: -1.0}, -1)
        for u in (places[var] for var in step.inputs if var in places):
            there = {linear.at("keep", u): -1.0, linear.at("copy", u, t): -1.0}
            linear.at_most({again: 1.0, **there}, 0)
            later = {linear.at("again", v, s): 1.0 for s in range(t, len(backward))}
            stays = {linear.at("stays", u, t): -1.0, linear.at("keep", u): 1.0}
            linear.at_most({**later, **stays}, 1)
        if any(v in wanted for wanted in needed[t:]):
            linear.at_most({keep: 1.0, linear.at("stays", v, t): -1.0}, 0)
        held[copy] = held[linear.at("stays", v, t)] = size[v]
    chain = [backward[s] for s in (t - 1, t) if s >= 0]
    own = sum(step.size for step in chain if step.var not in program.results)
    linear.at_most(held, budget - own)
