"""Models by the layers of TVM's `relax.frontend.nn`, as this project and TVM export them.

    layer_models.py QUESTIONS ANSWERS

Where TVM is, that writes the text of each that is asked for.
"""

import importlib
import inspect
import json
import sys
from typing import Any

CALLS: dict[str, str] = {
    "arithmetic": "lambda x: (2 - x) * 3 / 1.5 + x / x - 1",
    "comparisons": "lambda x, y: (op.equal(x, y), op.greater(x, y), op.less_equal(x, y))",
    "extremes": "lambda x, y: (op.maximum(x, y), op.minimum(x, y), x.maximum(y), x.minimum(2))",
    "activations": (
        "lambda x: (op.gelu(x), op.gelu(x, 'tanh'), op.relu(x), op.relu6(x), op.silu(x))"
    ),
    "elementwise": "lambda x: (op.exp(x), op.negative(x), op.sqrt(x), op.square(x), op.floor(x))",
    "softplus": "lambda x: (op.softplus(x), op.softplus(x, 2.0, 5.0), op.softmax(x), op.tanh(x))",
    "reductions": "lambda x: (op.max(x, 1), op.min(x, [0, 1], True), op.sum(x))",
    "sorted": "lambda x: (op.argsort(x), op.sort(x, descending=True), op.topk(x, k=2))",
    "dtypes": "lambda x: (op.astype(x, 'float16'), x.astype('int32'), x.astype('float32'))",
    "parts": "lambda x: (op.chunk(x, 3, 1), op.split(x, [1, 2], 1), op.concat([x, x], 0))",
    "cumulative": "lambda x: (op.cumsum(x), op.cumsum(x, 1, 'float64', True), op.triu(x, 1))",
    "numbers": (
        "lambda: (op.arange(5), op.arange(1, 9, 2, 'int32'), op.zeros((2, 2)), op.ones((2,)),"
        " op.full((2,), nn.Tensor.from_scalar(2.0, 'float32')), nn.Tensor.from_const(np.ones(3)),"
        " nn.Tensor.from_const(np.arange(3)))"
    ),
    "shapes": "lambda x: (x.reshape(3, 2), op.reshape(x, (6,)), op.broadcast_to(x, (4, 2, 3)))",
    "axes": "lambda x: (op.permute_dims(x, [1, 0]), op.permute(x, [1, 0]), op.unsqueeze(x, 1))",
    "repeated": "lambda x: (op.repeat(x, 2, 1), x.repeat(3), op.pad(x, [0, 0, 1, 1], value=2.0))",
    "taken": "lambda x, i: (op.take(x, i, 0), op.take(x, i, 1))",
    "products": "lambda x, w: (op.matmul(x, op.permute_dims(w)), op.where(op.less(x, w), x, w))",
    "prelu": "lambda im, c: op.prelu(im, c)",
    "groups": "lambda im, c: op.group_norm(im, 2, c, c)",
    "norms": "lambda x: (op.layer_norm(x, 3), op.rms_norm(x, op.ones((3,)), -1))",
    "images": (
        "lambda im: (op.interpolate(im, (8, 8)), op.interpolate(im, scale_factor=2.0,"
        " mode='bilinear', align_corners=False), op.interpolate(im, scale_factor=2,"
        " mode='bicubic', align_corners=True))"
    ),
    "times": (
        "lambda t: (op.get_timestep_embedding(t, 8), op.get_timestep_embedding(t, 8, True, 0.0,"
        " 2.0, 100))"
    ),
    "attention": (
        "lambda q: (op.scaled_dot_product_attention(q, q, q),"
        " op.scaled_dot_product_attention(q, q, q, is_causal=True, scale=0.5))"
    ),
    "chances": "lambda p, u, j: (op.multinomial_from_uniform(p, u, j),)",
    "chances of each": "lambda p, u: op.multinomial_from_uniform(p, u)",
    "a symbolic size": "lambda b, n: (op.reshape(b, (n, 4)), b * 1)",
    "nested": "lambda x, pair: (x, [pair[0] + pair[1], x])",
}

# The layers of a model, and how it calls them.
LAYERED: dict[str, tuple[str, str]] = {
    "a linear layer": ("[nn.Linear(3, 4)]", "lambda layers, x: layers[0](x)"),
    "of another dtype": ("[nn.Linear(3, 4, out_dtype='float64')]", "lambda layers, x: layers(x)"),
    "a table": ("[nn.Embedding(9, 4)]", "lambda layers, i, ii: (layers(i), layers(ii))"),
    "convolutions": (
        (
            "[nn.Conv1D(3, 6, 3, 2, 1, 1, 3), nn.Conv2D(4, 6, 3),"
            " nn.Conv3D(3, 2, [1, 2, 3], bias=False), nn.ConvTranspose1D(3, 4, 3, 2, 1, 1)]"
        ),
        "lambda layers, r, im, v: (layers[0](r), layers[1](im), layers[2](v), layers[3](r))",
    ),
    "channels last": (
        "[nn.Conv2D(4, 6, 3, stride=2, data_layout='NHWC')]",
        "lambda layers, last: layers(last)",
    ),
    "norms": (
        (
            "[nn.LayerNorm(3), nn.RMSNorm(3, -1), nn.LayerNorm(3, elementwise_affine=False),"
            " nn.GroupNorm(2, 4)]"
        ),
        "lambda layers, x, im: (*(layer(x) for layer in layers[:3]), layers[3](im))",
    ),
    "activations": ("[nn.ReLU(), nn.SiLU(), nn.GELU()]", "lambda layers, x: layers(x)"),
    "diffusion": (
        (
            "[modules.Timesteps(8), modules.TimestepEmbedding(8, 16, out_dim=12, cond_proj_dim=5),"
            " modules.Attention(16, heads=2, dim_head=8, norm_num_groups=4)]"
        ),
        "lambda layers, t, co, s: (layers[1](layers[0](t), co), layers[2](s))",
    ),
}

SPECS: dict[str, Any] = {
    "x": ((2, 3), "float32"),
    "y": ((2, 3), "float32"),
    "w": ((2, 3), "float32"),
    "i": ((2,), "int32"),
    "ii": ((2, 5), "int32"),
    "t": ((3,), "float32"),
    "im": ((2, 4, 5, 5), "float32"),
    "last": ((2, 8, 8, 4), "float32"),
    "c": ((4,), "float32"),
    "co": ((3, 5), "float32"),
    "r": ((2, 3, 9), "float32"),
    "v": ((2, 3, 5, 5, 5), "float32"),
    "q": ((2, 5, 4, 8), "float32"),
    "s": ((2, 5, 16), "float32"),
    "p": ((3, 5), "float32"),
    "u": ((3, 1), "float32"),
    "j": ((3, 1), "int64"),
    "b": (("m", 8), "float32"),
    "n": int,
    "pair": [((2, 3), "float32")] * 2,
}


def exported(nn: Any, name: str) -> Any:
    """The module of a call, by this project's layers or TVM's."""
    modules = importlib.import_module(f"{nn.__name__}.modules")
    scope = {"op": nn.op, "nn": nn, "modules": modules, "np": importlib.import_module("numpy")}
    layers, text = LAYERED.get(name, ("[]", CALLS.get(name, "")))
    call, held = eval(text, scope), eval(layers, scope)
    names = [each for each in inspect.signature(call).parameters if each != "layers"]
    given, namespace = ", ".join(names), dict[str, Any]()
    own = "self.layers, " if held else ""
    exec(f"def forward(self, {given}): return call({own}{given})", {"call": call}, namespace)
    model = type("Model", (nn.Module,), namespace)()
    model.layers = nn.ModuleList(held)
    specs = {"forward": {each: _spec(nn, SPECS[each]) for each in names}}
    module, _ = model.export_tvm(specs)
    return module


def _spec(nn: Any, given: Any) -> Any:
    if isinstance(given, list):
        return [_spec(nn, one) for one in given]
    return given if given is int else nn.spec.Tensor(*given)


if __name__ == "__main__":
    theirs = importlib.import_module("tvm.relax.frontend.nn")
    with open(sys.argv[1]) as asked:
        wanted = json.load(asked)
    texts = {}
    for one in wanted:
        try:
            texts[one] = exported(theirs, one).script(show_meta=True)
        except Exception as error:
            texts[one] = f"{type(error).__name__}: {error}"
    with open(sys.argv[2], "w") as answered:
        json.dump(texts, answered)
