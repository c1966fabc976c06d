"""Where the values of a schedule lie: the same wherever Python has their variables."""

from relaxjax.ir import TensorType, Var
from relaxjax.passes.memory.storage.memory_model import Buffer, Kernel, Kernels
from relaxjax.passes.memory.storage.xla_cpu.placement import placed


def test_of_two_values_that_end_at_once_the_first_that_is_read_gives_its_memory() -> None:
    for _ in range(16):
        one, other, sum_, last = buffers = [_buffer(name) for name in ("a", "b", "sum", "last")]
        added = Kernel(sum_, 8, (one, other), (), frozenset({one, other}))
        all_ = (
            Kernel(one, 8, (), ()),
            Kernel(other, 8, (), ()),
            added,
            Kernel(last, 4, (sum_,), ()),
        )
        lives = placed(Kernels(all_, frozenset({last}), ())).lives
        assert {buffers.index(buffer): life for buffer, life in lives.items()} == {
            0: (0, 3, 8),
            1: (1, 2, 8),
        }


def _buffer(name: str) -> Buffer:
    """Of a variable of its own: sets have it at another place each time."""
    return (Var(name, TensorType((), "float32")), False), None
