"""What XLA's CPU compiler computes at once, and so which values have bytes of their own.

It stands for the instruction fusion for CPUs (`_Use`, `_is_inside`: what is cheap is computed in
each kernel that reads it, what is dear in one alone), for layouts that convolutions and products
ask for (`_Finder.reads`), for `while` loops whose carried values alias what they start with
(`_Finder.add_loop`), and for operands whose bytes a result may take (`_Finder.over`).
"""

import sys
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from relaxjax.ir.expr import Call, Expr, Tuple, TupleGetItem, Var
from relaxjax.ir.tuples import tensors_in
from relaxjax.ir.types import TensorType
from relaxjax.ir.walk import used_vars
from relaxjax.ops.cost_rules import elements

from ...program.caller import Place
from ...program.program import Program
from ...program.schedule import Task, Value, Wait
from ...program.step import Step, size_of
from ..memory_model import Buffer, Kernel, Kernels
from ..needed import needed

_NOTHING = frozenset[Buffer]()
# So many parts of a value, each read elsewhere, are not computed each from what it is made of.
_MANY_PARTS = 8


def kernels(program: Program, tasks: Sequence[Task], inside: Mapping[Var, int]) -> Kernels:
    """What a schedule stores beside its parameters.

    A view is read as what it is a view of, and a value that is computed inside all its consumers
    as what it is computed from. A convolution reads copies, laid out as it likes. A loop has its
    results from the start, and besides, while it runs, the bytes that a step takes `inside`.
    """
    tasks = needed(program, tasks)
    unstored, in_sums = _unstored(program, tasks)
    finder = _Finder(unstored, in_sums, frozenset(program.in_place), inside)
    finder.roots.update(((var, False), (_given(to),)) for var, to in program.given.items())
    for task in tasks:
        finder.add(task)
    sizes = {kernel.buffer: kernel.size for kernel in finder.found}
    results = {
        buffer
        for var in program.results
        for buffer in finder.roots.get((var, False), ())
        if sizes.get(buffer, sys.maxsize) <= size_of(var)  # and not only a part of it
    }
    over = [
        (buffer, _given(param))
        for var, param in program.in_place.items()
        if param is not None
        for buffer in finder.roots.get((var, False), ())
    ]
    read = Counter(buffer for kernel in finder.found for buffer in kernel.reads)
    unread = {stack for stack in finder.stacks if read[stack] == 1 and stack not in results}
    found = [kernel for kernel in finder.found if kernel.buffer not in unread]
    starts = _starts_of_results(finder, results, read, {result for result, _ in over})
    found = [replace(k, size=0) if k.buffer in starts else k for k in found]
    return Kernels(tuple(found), frozenset({*results, *starts.values()}), tuple(over))


def _starts_of_results(
    finder: "_Finder", results: Collection[Buffer], read: Mapping[Buffer, int], over: set[Buffer]
) -> dict[Buffer, Buffer]:
    """What loops carry that is a result, and what it starts with, if the loop alone reads that.

    That lies in the memory of the result then, such as zeros to which gradients are added.
    """
    size = {kernel.buffer: kernel.size for kernel in finder.found}
    found: dict[Buffer, Buffer] = {}
    for carry, start in reversed(finder.carried.items()):
        is_result = carry in results or carry in found.values()
        is_alone = read[start] == 1 and start not in results and start not in found.values()
        if is_result and is_alone and carry not in over and size.get(start) == size[carry]:
            found[carry] = start
    return found


def _given(param: Var) -> Buffer:
    """The memory of a parameter, or of a part of it."""
    return (param, False), None


@dataclass
class _Finder:
    """Finds what each task reads and stores."""

    unstored: frozenset[Value]
    in_sums: frozenset[Value]  # what is computed inside of sums
    in_place: frozenset[Var]
    inside: Mapping[Var, int]  # what a step of each loop takes
    found: list[Kernel] = field(default_factory=list)
    roots: dict[Value, tuple[Buffer, ...]] = field(default_factory=dict)
    after: dict[Value, tuple[Buffer, ...]] = field(default_factory=dict)
    stored: set[Buffer] = field(default_factory=set)
    computed: set[Value] = field(default_factory=set)  # inside of what reads them
    # The buffers that a value needs at its own places only, number by number.
    aligned: dict[Value, frozenset[Buffer]] = field(default_factory=dict)
    parts: dict[Value, Mapping[Place, Buffer]] = field(default_factory=dict)  # of what loops give
    stacks: set[Buffer] = field(default_factory=set)  # that loops fill row by row
    # What loops carry, and what it starts with.
    carried: dict[Buffer, Buffer] = field(default_factory=dict)

    def add(self, task: Task) -> None:
        value, step = task.value, task.step
        if value in self.roots:  # a part of a parameter
            return
        reads = tuple(dict.fromkeys(self.reads(task)))
        after = self.waits(task)
        get = step.binding.value
        if step.var in self.inside:
            self.add_loop(task, reads, after)
        elif step.is_threefry:
            self.add_draw(task, reads, after)
        elif isinstance(get, TupleGetItem) and task.inputs and task.inputs[0] in self.parts:
            self.note(value, self.parts_of(get, dict(task.inputs)), after)
        elif value in self.unstored:
            self.roots[value] = reads
            if after:
                self.after[value] = after
            self.aligned[value] = self.over(task, reads)
            if not step.is_view or not self.computed.isdisjoint(task.inputs):
                self.computed.add(value)
        else:
            size = 0 if step.var in self.in_place else step.size
            buffer: Buffer = (value, None)
            self.store(buffer, size, reads, after, self.over(task, reads))
            self.roots[value] = (buffer,)
            self.aligned[value] = frozenset({buffer})

    def over(self, task: Task, reads: tuple[Buffer, ...]) -> frozenset[Buffer]:
        """The buffers that a task reads, of its value's type, at the places of that only."""
        step = task.step
        if step.is_written:
            return frozenset(reads[:1])
        if step.is_view and self.computed.isdisjoint(task.inputs):
            return _NOTHING.union(*(self.aligned.get(v, ()) for v in task.inputs))
        if not step.is_elementwise or not step.alike:
            return _NOTHING
        aligned, apart = set[Buffer](), set[Buffer]()
        for value in task.inputs:
            roots = self.roots.get(value, ())
            if value[0] not in step.alike:
                apart.update(roots)
                continue
            own = self.aligned.get(value, _NOTHING)
            aligned |= own
            if not own.issuperset(roots):
                apart.update(root for root in roots if root not in own)
        return frozenset(aligned - apart if apart else aligned)

    def add_loop(self, task: Task, reads: tuple[Buffer, ...], after: tuple[Buffer, ...]) -> None:
        """What a loop carries is what it starts with, and its stacks are there before all else."""
        call = task.step.binding.value
        assert isinstance(call, Call)
        others = {var for arg in (call.args[0], call.args[2]) for var in used_vars(arg)}
        starts = self.parts_of(call.args[1], dict(task.inputs))
        parts: dict[Place, Buffer] = {}
        for way, ty in tensors_in(task.step.var.ty):
            buffer = parts[way] = (task.value, way)
            size, start = size_of(Var("part", ty)), starts.get(way[1:])
            if way[0] == 1:
                self.store(buffer, size, (), ())
                self.stacks.add(buffer)
            elif start is None:
                self.store(buffer, size, reads, after)
            else:
                self.store(buffer, size, (start,), after, frozenset({start}))
                self.carried[buffer] = start
        run = tuple(
            b for value in task.inputs if value[0] in others for b in self.roots.get(value, ())
        )
        loop: Buffer = (task.value, None)
        inside = self.inside[task.step.var]
        self.found.append(Kernel(loop, inside, (*run, *parts.values()), after, brief=True))
        self.note(task.value, parts, (loop,))

    def add_draw(self, task: Task, reads: tuple[Buffer, ...], after: tuple[Buffer, ...]) -> None:
        """Random bits are two words of 32 bits each until they are read, and four as they are made.

        They are made by a loop over rounds, whose body copies both words.
        """
        words: Buffer = (task.value, None)
        made: Buffer = (task.value, "rounds")
        size = task.step.drawn_bytes
        self.store(words, size, reads, after)
        self.found.append(Kernel(made, size, (words,), (), brief=True))
        self.roots[task.value], self.after[task.value] = (words,), (made,)

    def parts_of(self, value: Expr, again: Mapping[Var, bool]) -> Mapping[Place, Buffer]:
        """The tensors in a value that have bytes of their own, and the way to each."""
        if isinstance(value, Tuple):
            fields = [self.parts_of(field, again) for field in value.fields]
            return {(i, *way): b for i, field in enumerate(fields) for way, b in field.items()}
        if isinstance(value, TupleGetItem):
            whole = self.parts_of(value.tuple_value, again).items()
            return {way[1:]: b for way, b in whole if way[0] == value.index}
        if not isinstance(value, Var):
            return {}
        known = (value, again.get(value, False))
        roots = self.roots.get(known, ())
        is_one = len(roots) == 1 and isinstance(value.ty, TensorType)
        return self.parts.get(known, {(): roots[0]} if is_one else {})

    def note(self, value: Value, parts: Mapping[Place, Buffer], after: tuple[Buffer, ...]) -> None:
        """Where the tensors of a value are that a loop gives."""
        self.parts[value] = parts
        self.roots[value], self.after[value] = tuple(parts.values()), after

    def store(
        self,
        buffer: Buffer,
        size: int,
        reads: tuple[Buffer, ...],
        after: tuple[Buffer, ...],
        over: frozenset[Buffer] = frozenset(),
    ) -> None:
        self.found.append(Kernel(buffer, size, reads, after, over))
        self.stored.add(buffer)

    def reads(self, task: Task) -> Iterable[Buffer]:
        step, roots = task.step, self.roots
        if step.layouts or task.waits or step.is_sum or task.value in self.in_sums:
            return self.reads_of_copies(task)
        if len(task.inputs) == 1:
            return roots.get(task.inputs[0], ())
        return [buffer for value in task.inputs for buffer in roots.get(value, ())]

    def reads_of_copies(self, task: Task) -> Iterator[Buffer]:
        """What a task reads that may read copies, which are stored before it."""
        layouts = task.step.layouts
        for value in task.inputs:
            reason: Hashable = layouts.get(value[0])
            wait = task.wait_for(value)
            least = task.step.size if self.is_summed_apart(task, value) else 0
            if least:
                reason = max(size_of(value[0]), least)
            if wait is not None and (least or not self.fuses(task)):
                reason = wait.moment
            if reason is None:
                yield from self.roots.get(value, ())
            else:
                yield self.copy(value, reason, max(size_of(value[0]), least), wait)

    def is_summed_apart(self, task: Task, value: Value) -> bool:
        """Whether a sum reads a value from bytes of its own, as many as those of what it sums."""
        if value in self.in_sums:
            return False
        if task.value in self.in_sums and task.step.size > size_of(value[0]):
            return elements(value[0].ty) != 1
        return value in self.computed and (task.step.is_sum or task.value in self.in_sums)

    def fuses(self, task: Task) -> bool:
        """Whether what is late is so inside what the task computes."""
        return task.step.fusible and not (task.step.is_transpose and task.value in self.unstored)

    def copy(self, value: Value, reason: Hashable, size: int, wait: Wait | None) -> Buffer:
        """A copy of what a task reads, unless there is one already."""
        buffer = (value, reason)
        if buffer not in self.stored:
            after = self.after.get(value, ())
            if wait is not None and reason is wait.moment:
                after = (*after, *self.roots.get((wait.moment, False), ()))
            self.store(buffer, size, self.roots.get(value, ()), after)
        return buffer

    def waits(self, task: Task) -> tuple[Buffer, ...]:
        """What a task waits for: its own moment, and those of what is computed inside it."""
        if not (self.after or task.waits):
            return ()
        found = [buffer for value in task.inputs for buffer in self.after.get(value, ())]
        for wait in task.waits:
            found += self.roots.get((wait.moment, False), ())
        return tuple(dict.fromkeys(found)) if found else ()


class _Use(NamedTuple):
    """How the consumers of a value consume it."""

    all_fuse: bool = True  # all compute it inside them if they can
    all_products: bool = True  # all are products of matrices
    some_sum: bool = False  # some is a sum
    number: int = 0  # of them
    parts: int = 0  # how many of them are parts of it
    kernel: Hashable = None  # one that reads it
    in_several: bool = False  # whether others do as well

    def and_by(self, other: "_Use") -> "_Use":
        """That by other consumers as well."""
        if self.kernel is None:
            kernel, in_several = other.kernel, other.in_several
        else:
            kernel = self.kernel
            in_several = self.in_several or other.in_several
            in_several = in_several or other.kernel not in (None, kernel)
        return _Use(
            self.all_fuse and other.all_fuse,
            self.all_products and other.all_products,
            self.some_sum or other.some_sum,
            self.number + other.number,
            self.parts + other.parts,
            kernel,
            in_several,
        )


def _unstored(program: Program, tasks: Sequence[Task]) -> tuple[frozenset[Value], frozenset[Value]]:
    """The values without bytes of their own, and those among them that are inside of sums.

    What is cheap is computed in each kernel that needs it, what is not only where that is one.
    """
    uses: dict[Value, _Use] = {}
    unstored: set[Value] = set()
    in_sums: set[Value] = set()
    nobody = _Use()
    for task in reversed(tasks):
        step, value = task.step, task.value
        use = uses.get(value, nobody)
        is_result = step.var in program.results
        is_view = _is_view(step, use)
        is_inside = not is_view and not is_result and _is_inside(step, use)
        kernel: tuple[Hashable, bool] = value, False
        if is_inside or (is_view and (step.is_name or not is_result)):
            unstored.add(value)
            kernel = use.kernel, use.in_several
        if is_inside and step.is_arithmetic and use.some_sum and use.number == 1:
            in_sums.add(value)
        if is_view and not is_result:
            own = _Use(use.all_fuse, False, use.some_sum, use.number, use.parts, *kernel)
        else:
            some_sum = step.is_sum or value in in_sums
            own = _Use(step.fusible, step.is_product, some_sum, 1, int(step.is_moved), *kernel)
        for read in task.inputs:
            wait = task.wait_for(read) if task.waits and not step.fusible else None
            # What is held back is copied, by a kernel that computes it too.
            added = own if wait is None else _Use(True, False, False, 1, 0, (read, wait))
            known = uses.get(read)
            uses[read] = added if known is None else known.and_by(added)
    return frozenset(unstored), frozenset(in_sums)


def _is_view(step: Step, use: _Use) -> bool:
    """Whether a value needs no bytes; a product reads a matrix across without copying it."""
    return step.is_name or (step.is_transpose and use.all_products and use.number > 0)


def _is_inside(step: Step, use: _Use) -> bool:
    """Whether a value is computed inside all that consumes it, but for sums, which copy it."""
    if not (step.pointwise and use.all_fuse and use.number) or use.parts >= _MANY_PARTS:
        return False
    if use.kernel is not None and not use.in_several:
        return True
    return not step.expensive and (step.is_unary or not use.some_sum)
