"""What each law of RaiseOps makes of calls of `lax.*`; a comma ends the name of the law."""

NUMBERS = (
    'dimension_numbers={"ConvDimensionNumbers": {"lhs_spec": [0, 3, 1, 2], '
    '"rhs_spec": [3, 2, 0, 1], "out_spec": [0, 3, 1, 2]}}'
)
CONV = (
    "L.conv_general_dilated(x, w, window_strides=%s, padding=[[1, 0], [1, 1]], lhs_dilation=%s, "
    f"rhs_dilation=[1, 1], {NUMBERS}, feature_group_count=1, batch_group_count=1%s)"
)
PRECISE = ', precision=[{"Precision": "HIGHEST"}, {"Precision": "HIGHEST"}]'
IMAGES = 'x: R.Tensor((2, 5, 5, 4), "float32"), w: R.Tensor((2, 3, 4, 6), "float32")'
LAYOUTS = 'data_layout="NHWC", kernel_layout="HWIO", out_layout="NHWC"'
WINDOW = (
    "window_dimensions=[1, 2, 3, 1], window_strides=[1, 2, 1, 1], "
    "padding=[[0, 0], [0, 1], [1, 1], [0, 0]], base_dilation=[1, 1, 1, 1], "
    "window_dilation=[1, 1, 1, 1]"
)
POOL = 'pool_size=[2, 3], strides=[2, 1], padding=[0, 1, 1, 1], layout="NHWC"'
ROWS = 'x: R.Tensor((3, 5), "float32")'
NORM = f'{ROWS}, g: R.Tensor((5,), "float32"), b: R.Tensor((5,), "float32")'
TEXTS = 'x: R.Tensor((2, 4, 3), "float32"), w: R.Tensor((3, 5), "float32")'
OF_ROWS = "L.dot_general(x, w, dimension_numbers=[[[1], [0]], [[], []]])"
PRODUCT = "L.dot_general(x, w, dimension_numbers=[[[2], [0]], [[], []]])"
SCORES = f'{ROWS}, t: R.Tensor((3, 1), "int32")'
HEADS = ", ".join(f'{name}: R.Tensor((2, 4, 3, 5), "float32")' for name in "qkv")
PICK = (
    'dimension_numbers={"GatherDimensionNumbers": {"offset_dims": [], "collapsed_slice_dims": [1], '
    '"start_index_map": [1], "operand_batching_dims": [0], "start_indices_batching_dims": [0]}}, '
    "slice_sizes=[1, 1], unique_indices=False, indices_are_sorted=False, "
    'mode={"GatherScatterMode": "%s"}'
)
LOOKUP = (
    'dimension_numbers={"GatherDimensionNumbers": {"offset_dims": %s, "collapsed_slice_dims": %s, '
    '"start_index_map": %s, "operand_batching_dims": [], "start_indices_batching_dims": []}}, '
    "slice_sizes=[1, 5], unique_indices=False, indices_are_sorted=False, "
    'mode={"GatherScatterMode": "CLIP"}'
)

SHIFTED = [
    "top = L.reduce_max(x, axes=[1])",
    "still = L.stop_gradient(top)",
    "kept = L.broadcast_in_dim(still, shape=[3, 1], broadcast_dimensions=[0])",
    "low = L.sub(x, kept)",
    "power = L.exp(low)",
    "total = L.reduce_sum(power, axes=[1])",
]
TOTAL = "wide = L.broadcast_in_dim(total, shape=[3, 1], broadcast_dimensions=[0])"
MEAN = [
    "total = L.reduce_sum(x, axes=[1])",
    "wide = L.broadcast_in_dim(total, shape=[3, 1], broadcast_dimensions=[0])",
    'mean = L.div(wide, R.const(5.0, "float32"))',
    "low = L.sub(x, mean)",
]
SPREAD = [
    *MEAN,
    "square = L.square(low)",
    "more = L.reduce_sum(square, axes=[1])",
    "apart = L.broadcast_in_dim(more, shape=[3, 1], broadcast_dimensions=[0])",
    'variance = L.div(apart, R.const(5.0, "float32"))',
    'safe = L.add(variance, R.const(0.125, "float32"))',
    "inverse = L.rsqrt(safe)",
    "value = L.mul(low, inverse)",
    "scale = L.broadcast_in_dim(g, shape=[1, 5], broadcast_dimensions=[1])",
    "scaled = L.mul(value, scale)",
]
SHIFT = "shift = L.broadcast_in_dim(b, shape=[1, 5], broadcast_dimensions=[1])"
NOTHINGS = 'L.broadcast_in_dim(R.const(0.0, "float32"), shape=%s, broadcast_dimensions=[])'
NOTHING = (
    'L.broadcast_in_dim(R.const(float("-inf"), "float32"), shape=[2, 3, 4, 4], '
    "broadcast_dimensions=[])"
)
CAUSAL = [
    "scores = L.dot_general(q, k, dimension_numbers=[[[3], [3]], [[0, 2], [0, 2]]])",
    'scaled = L.mul(scores, R.const(0.5, "float32"))',
    'row = L.iota(dtype="int32", shape=[4, 4], dimension=0)',
    'column = L.iota(dtype="int32", shape=[4, 4], dimension=1)',
    "seen = L.ge(row, column)",
    "mask = L.broadcast_in_dim(seen, shape=[2, 3, 4, 4], broadcast_dimensions=[2, 3])",
    f"hidden = {NOTHING}",
    "shown = L.select_n(mask, hidden, scaled)",
    "weights = R.nn.softmax(shown)",
    "y = L.dot_general(weights, v, dimension_numbers=[[[3], [1]], [[0, 1], [0, 2]]])",
]

# Each law: the parameters of a function, its bindings, of which `y` is the result, and the raised.
CASES: dict[str, tuple[str, list[str], list[str]]] = {
    "convolution": (
        IMAGES,
        [f"y = {CONV % ('[2, 1]', '[1, 1]', '')}"],
        [f"y = R.nn.conv2d(x, w, strides=[2, 1], padding=[1, 1, 0, 1], {LAYOUTS})"],
    ),
    "convolution, transposed": (
        IMAGES,
        [f"y = {CONV % ('[1, 1]', '[2, 3]', '')}"],
        [
            "f = R.flip(w, axis=0)",
            "h = R.flip(f, axis=1)",
            f"y = R.nn.conv2d_transpose(x, h, strides=[2, 3], padding=[0, 1, 1, 1], {LAYOUTS})",
        ],
    ),
    "max_pooling": (
        IMAGES,
        [f"y = L.reduce_window_max(x, {WINDOW})"],
        [f"y = R.nn.max_pool2d(x, {POOL})"],
    ),
    "sum_pooling": (
        IMAGES,
        [f"y = L.reduce_window_sum(x, {WINDOW})"],
        [
            f"m = R.nn.avg_pool2d(x, {POOL}, count_include_pad=True)",
            'y = R.multiply(m, R.const(6.0, "float32"))',
        ],
    ),
    "mean_pooling": (
        IMAGES,
        [f"s = L.reduce_window_sum(x, {WINDOW})", 'y = L.div(s, R.const(6.0, "float32"))'],
        [f"y = R.nn.avg_pool2d(x, {POOL}, count_include_pad=True)"],
    ),
    "product": (TEXTS, [f"y = {PRODUCT}"], ["y = R.matmul(x, w)"]),
    "product, with wider sums": (
        TEXTS.replace("float32", "float16"),
        [f"y = {PRODUCT[:-1]}, preferred_element_type='float32')"],
        [
            "r = R.reshape(x, (8, 3))",
            f"p = {OF_ROWS.replace('x', 'r')[:-1]}, preferred_element_type='float32')",
            "y = R.reshape(p, (2, 4, 5))",
        ],
    ),
    "product, with several axes left": (
        'x: R.Tensor((2, 4, 3), "float32"), w: R.Tensor((3, 5, 2), "float32")',
        [f"y = {PRODUCT}"],
        ["m = R.reshape(w, (3, 10))", "p = R.matmul(x, m)", "y = R.reshape(p, (2, 4, 5, 2))"],
    ),
    "stacked_product": (
        'x: R.Tensor((2, 3), "float32"), w: R.Tensor((4, 3, 5), "float32")',
        ["s = L.sin(x)", "y = L.dot_general(s, w, dimension_numbers=[[[1], [1]], [[], []]])"],
        ["s = L.sin(x)", "p = R.matmul(s, w)", "y = R.permute_dims(p, axes=[1, 0, 2])"],
    ),
    "stacked_product, with the stack first": (
        'x: R.Tensor((2, 4, 3), "float32"), w: R.Tensor((4, 3, 5), "float32")',
        ["s = L.sin(x)", "y = L.dot_general(w, s, dimension_numbers=[[[1], [2]], [[0], [1]]])"],
        [
            "s = L.sin(x)",
            "t = R.permute_dims(s, axes=[1, 0, 2])",
            "p = R.matmul(t, w)",
            "y = R.permute_dims(p, axes=[0, 2, 1])",
        ],
    ),
    "put_back": (
        'x: R.Tensor((2, 4, 3), "float32"), b: R.Tensor((3,), "float32")',
        [
            "t = R.permute_dims(x, axes=[1, 2, 0])",
            "r = L.broadcast_in_dim(b, shape=[4, 3, 2], broadcast_dimensions=[1])",
            "s = L.add(t, r)",
            "y = R.permute_dims(s, axes=[2, 0, 1])",
        ],
        [
            "r = L.broadcast_in_dim(b, shape=[2, 4, 3], broadcast_dimensions=[2])",
            "y = L.add(x, r)",
        ],
    ),
    "product, summed over two axes": (
        'x: R.Tensor((5, 2, 3), "float32"), w: R.Tensor((4, 2, 3), "float32")',
        ["y = L.dot_general(x, w, dimension_numbers=[[[1, 2], [1, 2]], [[], []]])"],
        [
            "r = R.reshape(x, (5, 6))",
            "m = R.reshape(w, (4, 6))",
            "t = R.permute_dims(m, axes=[1, 0])",
            "y = R.matmul(r, t)",
        ],
    ),
    "product, the matrix first": (
        'w: R.Tensor((5, 3), "float32"), x: R.Tensor((2, 4, 3), "float32")',
        ["y = L.dot_general(w, x, dimension_numbers=[[[1], [2]], [[], []]])"],
        [
            "t = R.permute_dims(w, axes=[1, 0])",
            "m = R.matmul(x, t)",
            "y = R.permute_dims(m, axes=[2, 0, 1])",
        ],
    ),
    "nothing_less": (
        ROWS,
        [f"z = {NOTHINGS % '[3, 1]'}", "d = L.sub(x, z)", "y = L.exp(d)"],
        ["y = L.exp(x)"],
    ),
    "sort": (
        ROWS,
        ["s = L.sort(x, dimension=1, is_stable=True, num_keys=1)", "y = s[0]"],
        ["y = R.sort(x, axis=1)"],
    ),
    "row_lookup": (
        SCORES,
        [
            "z = L.broadcast_in_dim(R.const(0, 'int32'), shape=[3, 1], broadcast_dimensions=[])",
            "places = L.concatenate(t, z, dimension=1)",
            f"y = L.gather(x, places, {LOOKUP % ([1, 2], [], [0, 1])})",
        ],
        [
            f"r = L.gather(x, t, {LOOKUP % ([1], [0], [0])})",
            "y = L.reshape(r, new_sizes=[3, 1, 5])",
        ],
    ),
    "transpose": (
        TEXTS,
        ["y = L.transpose(x, permutation=[2, 0, 1])"],
        ["y = R.permute_dims(x, axes=[2, 0, 1])"],
    ),
    "softmax": (ROWS, [*SHIFTED, TOTAL, "y = L.div(power, wide)"], ["y = R.nn.softmax(x, axis=1)"]),
    "log_softmax": (
        ROWS,
        [*SHIFTED, TOTAL, "log = L.log(wide)", "y = L.sub(low, log)"],
        ["y = R.nn.log_softmax(x, axis=1)"],
    ),
    "class_loss": (
        SCORES,
        [
            *SHIFTED,
            "log = L.log(total)",
            "sum = L.add(log, still)",
            "p = L.reshape(t, new_sizes=[3, 1, 1])",
            f"each = L.gather(x, p, {PICK % 'PROMISE_IN_BOUNDS'})",
            "picked = L.squeeze(each, dimensions=[1])",
            "y = L.sub(sum, picked)",
        ],
        [
            "p = L.reshape(t, new_sizes=[3, 1, 1])",
            "f = R.reshape(p, (3,))",
            'a = R.less(f, R.const(0, "int32"))',
            'g = R.where(a, R.const(-2147483647, "int32"), f)',
            'y = R.nn.softmax_nll_loss(x, g, None, reduction="none", ignore_index=-2147483648)',
        ],
    ),
    "class_log_probability, in bounds": (
        SCORES,
        [
            "l = R.nn.log_softmax(x, axis=1)",
            "p = L.reshape(t, new_sizes=[3, 1, 1])",
            f"y = L.gather(l, p, {PICK % 'PROMISE_IN_BOUNDS'})",
        ],
        [
            "p = L.reshape(t, new_sizes=[3, 1, 1])",
            "f = R.reshape(p, (3,))",
            'a = R.greater_equal(f, R.const(0, "int32"))',
            'b = R.less(f, R.const(5, "int32"))',
            "c = R.logical_and(a, b)",
            'h = R.less(f, R.const(0, "int32"))',
            'g = R.where(h, R.const(-2147483647, "int32"), f)',
            'n = R.nn.softmax_nll_loss(x, g, None, reduction="none", ignore_index=-2147483648)',
            "d = L.stop_gradient(n)",
            "e = R.where(c, n, d)",
            "r = R.reshape(e, (3, 1))",
            "y = R.negative(r)",
        ],
    ),
    "class_log_probability": (
        SCORES,
        [
            "l = R.nn.log_softmax(x, axis=1)",
            "p = L.reshape(t, new_sizes=[3, 1, 1])",
            f"y = L.gather(l, p, {PICK % 'FILL_OR_DROP'}, fill_value=float('nan'))",
        ],
        [
            "p = L.reshape(t, new_sizes=[3, 1, 1])",
            "f = R.reshape(p, (3,))",
            'a = R.greater_equal(f, R.const(0, "int32"))',
            'b = R.less(f, R.const(5, "int32"))',
            "c = R.logical_and(a, b)",
            'g = R.where(c, f, R.const(-2147483648, "int32"))',
            'n = R.nn.softmax_nll_loss(x, g, None, reduction="none", ignore_index=-2147483648)',
            'd = R.where(c, R.const(0.0, "float32"), R.const(float("nan"), "float32"))',
            "e = R.add(n, d)",
            "r = R.reshape(e, (3, 1))",
            "y = R.negative(r)",
        ],
    ),
    "gelu": (
        ROWS,
        [
            'h = L.mul(R.const(0.5, "float32"), x)',
            "n = L.neg(x)",
            'm = L.mul(n, R.const(0.70710677, "float32"))',
            "e = L.erfc(m)",
            "y = L.mul(h, e)",
        ],
        ["y = R.nn.gelu(x)"],
    ),
    "silu": (ROWS, ["s = L.logistic(x)", "y = L.mul(x, s)"], ["y = R.nn.silu(x)"]),
    "norm_with_shift": (
        NORM,
        [*SPREAD, SHIFT, "y = L.add(scaled, shift)"],
        ["y = R.nn.layer_norm(x, g, b, axes=[1], epsilon=0.125)"],
    ),
    "norm": (
        NORM,
        [*SPREAD, "y = L.neg(scaled)"],
        [
            'z = R.ones((5,), "float32")',
            "n = R.nn.layer_norm(x, g, z, axes=[1], epsilon=0.125, center=False)",
            "y = L.neg(n)",
        ],
    ),
    "attention, under a mask": (
        f'{HEADS}, m: R.Tensor((2, 4, 4), "bool")',
        [
            *CAUSAL[:2],
            "mask = L.broadcast_in_dim(m, shape=[2, 3, 4, 4], broadcast_dimensions=[0, 2, 3])",
            CAUSAL[6].replace('float("-inf")', "-1.2676506002282294e+30"),
            *CAUSAL[7:],
        ],
        [
            "s = R.reshape(m, (2, 1, 4, 4))",
            "a = R.nn.masked_attention(q, k, v, s, scale=0.5, hidden=-1.2676506002282294e+30)",
            "y = R.permute_dims(a, axes=[0, 2, 1, 3])",
        ],
    ),
    "attention": (
        HEADS,
        CAUSAL,
        [
            'a = R.nn.attention(q, k, v, scale=0.5, causal_mask="TopLeft")',
            "y = R.permute_dims(a, axes=[0, 2, 1, 3])",
        ],
    ),
}


def text(params: str, lines: list[str]) -> str:
    body = "\n        ".join([*lines, "R.output(y)"])
    return (
        f"@R.function\ndef main({params}):\n    with R.dataflow():\n        {body}\n    return y\n"
    )
