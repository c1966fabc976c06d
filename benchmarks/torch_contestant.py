"""PyTorch as a contestant of the suite: eager or compiled, with its fused Adam, on as many threads.

Images lie channels last where steps are quicker so. Import this where PyTorch is.
"""

import os
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from itertools import accumulate
from typing import Any

import jax
import numpy as np
from contestants import bytes_of
from models.stepped import RATE
from timing import seconds
from torch_models import form_of
from whole_model import WholeModel

torch: Any = import_module("torch")  # it need not be installed where types are checked

TRIES = 5  # steps of a layout, of which the quickest counts


class TorchTraining:
    """A call is a step; what a `contestants.Training` has, this has.

    Nothing tells what a step needs beside its arguments, so that a step's allocations are counted.
    """

    def __init__(self, name: str, model: WholeModel, compiles: bool = False) -> None:
        torch.set_num_threads(threads())
        self._form, self._model = form_of(name, model), model
        self._set(self._quickest_layout())
        self.compile_seconds = self._compile() if compiles else (0.0, 0.0)
        self.temp_bytes = most_allocated(self._differentiate, self._adam)
        arrays = model.params, *[model.params] * 2, model.inputs  # Adam has two for each parameter
        self.peak_bytes = bytes_of(arrays) + self.temp_bytes

    def _compile(self) -> tuple[float, float]:
        """How long it takes, and of the CPU, as if for the first time and in this process."""
        settings = import_module("torch._inductor.config")
        with settings.patch(compile_threads=1, force_disable_caches=True):
            start_compiler()
            torch.compiler.reset()  # else it writes code for the sizes of all models of a kind
            times = os.times()
            self._loss = torch.compile(self._form.loss)
            self._differentiate()
            return elapsed(times)

    def _set(self, layout: Any) -> None:
        """The parameters as they were given, with images in that layout."""
        params, inputs = self._form.to_torch(self._model.params), tuple(self._model.inputs)
        self._params, self._inputs = jax.tree.map(lambda a: tensor(a, layout), (params, inputs))
        leaves = [p.requires_grad_() for p in jax.tree.leaves(self._params)]
        self._adam = torch.optim.Adam(leaves, RATE, fused=True)
        self._loss = self._form.loss

    def _quickest_layout(self) -> Any:
        """That in which eager steps are quickest."""
        layouts = [torch.contiguous_format, torch.channels_last]
        has_images = any(np.ndim(p) == 4 for p in jax.tree.leaves(self._model.params))
        if not has_images:
            return layouts[0]
        took = {}
        for layout in layouts:
            self._set(layout)
            self()
            took[layout] = min(seconds(self)[0] for _ in range(TRIES))
        return min(layouts, key=lambda layout: took[layout])

    def __call__(self) -> None:
        self.loss = self._differentiate()
        self._adam.step()

    def _differentiate(self) -> Any:
        self._adam.zero_grad()
        loss = self._loss(*self._params, *self._inputs)
        loss.backward()
        return loss.detach()

    def gradients(self) -> Any:
        """Those of the last step, as they are of our parameters."""
        return self._form.to_ours(jax.tree.map(lambda p: p.grad.numpy(), self._params))


@cache
def start_compiler() -> None:
    """Load what compiles, which is no model's part."""
    torch.compile(lambda x: (2 * x).sum())(torch.ones(8, requires_grad=True)).backward()


def threads() -> int:
    """How many XLA uses on a CPU: the cores that this process may run on."""
    asked = getattr(os, "sched_getaffinity", None)
    return len(asked(0)) if asked else os.cpu_count() or 1


def tensor(array: Any, layout: Any) -> Any:
    """A copy; whole numbers as PyTorch wants labels."""
    values = np.array(array, "int64" if array.dtype.kind == "i" else array.dtype)
    found = torch.from_numpy(values)
    return found.contiguous(memory_format=layout) if found.ndim == 4 else found


def elapsed(before: os.times_result) -> tuple[float, float]:
    """Seconds by the clock, and of the CPU; a C++ compiler's too, which is a process of its own."""
    spent = os.times()
    return spent.elapsed - before.elapsed, sum(spent[:4]) - sum(before[:4])


def most_allocated(differentiate: Callable[[], object], optimizer: Any) -> int:
    """The most bytes that a call holds at a time, its gradients among them.

    These are let go before, and while PyTorch still counts. It does not see bytes go that it has
    not seen come, and those that stayed it takes for others at their address in a later count.
    """
    optimizer.zero_grad()
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True, acc_events=True
    ) as profile:
        differentiate()
        optimizer.zero_grad()
    tree = profile.profiler.kineto_results.experimental_event_tree()
    changes = [change for _, change in sorted(allocations(tree))]
    return max(accumulate(changes, initial=0))


def allocations(events: Any) -> Iterator[tuple[int, int]]:
    """When bytes were taken, or given back, and how many."""
    for event in events:
        if hasattr(event.extra_fields, "alloc_size"):
            yield event.start_time_ns, event.extra_fields.alloc_size
        yield from allocations(event.children)
