"""What an operator of ATen gives for tensors, and the gradients of the sum of that."""

from typing import Any

import numpy as np

from relaxjax import to_jax
from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expr import Var
from relaxjax.ir.types import TensorType
from relaxjax.passes import Gradient
from relaxjax.torch.aten import TABLE


def arrays_of(*values: Any) -> list[Any]:
    """Lists as arrays of floats; arrays as they are."""
    return [v if isinstance(v, np.ndarray) else np.array(v, "float32") for v in values]


def program(name: Any, arrays: Any, options: dict[str, Any]) -> Any:
    """A module whose function `main` gives the first result of an operator of ATen."""
    builder = BlockBuilder()
    params = [
        Var(f"x{place}", TensorType(one.shape, one.dtype.name)) for place, one in enumerate(arrays)
    ]
    with builder.function("main", params):
        with builder.dataflow():
            rule = TABLE[f"aten.{name}"].rule if isinstance(name, str) else name
            found = rule(*params, **options)
            found = found[0] if isinstance(found, list | tuple) else found
            result = builder.emit_output(found)
        builder.emit_func_output(result)
    return builder.get()


def value(name: Any, *values: Any, **options: Any) -> Any:
    """What an operator of ATen gives; of several results, the first one."""
    arrays = arrays_of(*values)
    return np.asarray(to_jax(program(name, arrays, options), "main")(*arrays))


def slopes(name: Any, *values: Any, **options: Any) -> list[Any]:
    """The gradients of the sum of the first result, by each tensor of floats."""
    arrays = arrays_of(*values)
    mod = Gradient("main", cotangent=True)(program(name, arrays, options))
    ty = mod["main"].ret_ty
    assert isinstance(ty, TensorType)
    assert ty.dims is not None
    _, found = to_jax(mod, "main_adjoint")(*arrays, np.ones(ty.dims, ty.dtype))
    floats = [one.dtype.kind == "f" for one in arrays]
    return [np.asarray(one) for one, is_float in zip(found, floats, strict=True) if is_float]
