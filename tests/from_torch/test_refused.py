"""Files and programs that are refused, and what is said of them."""

import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from relaxjax.ir import assert_structural_equal
from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expr import Var
from relaxjax.ir.span import Span
from relaxjax.ir.types import TensorType
from relaxjax.torch import TorchArchiveError, TorchImportError, from_torch
from relaxjax.torch.archive import read_archive
from relaxjax.torch.importer import import_program
from relaxjax.torch.interpreter import Interpreter
from relaxjax.torch.program import Graph, Node, Ref
from relaxjax.torch.sizes import Sizes

FILE = Path(__file__).parent / "files" / "cnn.pt2"
MODEL = "models/model.json"
WEIGHTS = "data/weights/model_weights_config.json"

Change = Callable[[dict[str, bytes]], Any]


def changed(change: Change, method: int = zipfile.ZIP_STORED, name: str = FILE.name) -> io.BytesIO:
    """The file with other entries; their names are without the folder that they lie in."""
    with zipfile.ZipFile(FILE.with_name(name)) as read:
        entries = {name.split("/", 1)[1]: read.read(name) for name in read.namelist()}
    change(entries)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as written:
        for name, data in entries.items():
            written.writestr(name if name.startswith("/") else f"model/{name}", data)
    file.seek(0)
    return file


def refusal(change: Change, method: int = zipfile.ZIP_STORED, name: str = FILE.name) -> str:
    with pytest.raises((TorchArchiveError, TorchImportError)) as caught:
        import_program(read_archive(changed(change, method, name), "model.pt2"))
    return str(caught.value)


def edited(entries: dict[str, bytes], name: str, edit: Callable[[Any], Any]) -> None:
    data = json.loads(entries[name])
    edit(data)
    entries[name] = json.dumps(data).encode()


def with_model(edit: Callable[[Any], Any]) -> Change:
    return lambda entries: edited(entries, MODEL, edit)


def with_weight(edit: Callable[[Any], Any]) -> Change:
    return lambda entries: edited(
        entries, WEIGHTS, lambda data: edit(data["config"]["conv.weight"])
    )


def test_the_file_itself_is_read() -> None:
    assert import_program(read_archive(changed(lambda entries: None), "model.pt2")).params


def test_what_is_no_zip() -> None:
    with pytest.raises(TorchArchiveError, match="it is no zip file"):
        read_archive(io.BytesIO(b"numbers"), "model.pt2")


@pytest.mark.parametrize("name", ["../evil", "/evil", "data\\evil"])
def test_a_path_that_leads_out_of_the_file(name: str) -> None:
    assert f"it holds a file of the name {name!r}"[-8:] in refusal(
        lambda entries: entries.update({name: b""})
    )


def test_files_in_several_folders() -> None:
    file = changed(lambda entries: None)
    with zipfile.ZipFile(file, "a") as written:
        written.writestr("other/data", b"")
    file.seek(0)
    with pytest.raises(TorchArchiveError, match="its files lie in several folders"):
        read_archive(file, "model.pt2")


def test_a_bomb() -> None:
    text = refusal(lambda entries: entries.update({MODEL: b" " * (1 << 24)}), zipfile.ZIP_DEFLATED)
    assert f"`{MODEL}` unpacks from" in text


def test_too_many_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relaxjax.torch.sealed_zip._MOST_ENTRIES", 3)
    assert "more than 3" in refusal(lambda entries: None)


def test_a_file_of_another_length_than_it_says() -> None:
    data = changed(lambda entries: entries.update({MODEL: b"{}"})).getvalue()
    place = data.rindex(b"PK\x01\x02", 0, data.rindex(b"models/model.json"))
    longer = data[: place + 24] + (9).to_bytes(4, "little") + data[place + 28 :]
    with pytest.raises(TorchArchiveError, match=r"cannot be read|has not the 9 bytes"):
        read_archive(io.BytesIO(longer), "model.pt2")


def test_json_that_torch_does_not_write() -> None:
    text = refusal(with_model(lambda data: data.pop("graph_module")))
    assert f"`{MODEL}` is not what torch writes (KeyError: 'graph_module')" in text
    text = refusal(with_model(lambda data: nodes(data)[0]["inputs"][0].update(arg={})))
    assert f"`{MODEL}` is not what torch writes (ValueError: not enough values" in text
    text = refusal(lambda entries: edited(entries, WEIGHTS, lambda data: data.update(config=["a"])))
    assert f"`{WEIGHTS}` is not what torch writes (AttributeError: " in text


@pytest.mark.parametrize(("major", "minor"), [(7, 20), (8, 1), (9, 0)])
def test_another_schema_says_with_which_torch_to_export_again(major: int, minor: int) -> None:
    version = {"major": major, "minor": minor}
    text = refusal(with_model(lambda data: data.update(schema_version=version)))
    assert f"its schema has version {major}.{minor}, and read are 8." in text
    assert "(torch 2.9 and later)" in text


def test_a_file_that_names_no_schema() -> None:
    assert "names no version" in refusal(with_model(lambda data: data.pop("schema_version")))


def with_entry(name: str, content: bytes) -> Change:
    return lambda entries: entries.update({name: content})


def with_meta(key: str, *numbers: int) -> Change:
    """The weight of a convolution with other sizes or strides."""
    given = [{"as_int": number} for number in numbers]
    return with_weight(lambda entry: entry["tensor_meta"].update({key: given}))


REFUSED: dict[str, tuple[Change, str]] = {
    "json that is nested too deep": (with_entry(MODEL, b"[" * 200_000), "nested too deep"),
    "json that is none": (with_entry(MODEL, b"{"), f"`{MODEL}` is no JSON"),
    "another format": (
        with_entry("archive_format", b"pt3"),
        "does not say that its format is pt2",
    ),
    "another version of the archive": (
        with_entry("archive_version", b"7"),
        "its archive has version b'7', and read are 8.",
    ),
    "numbers of another machine": (with_entry("byteorder", b"big"), "big-endian"),
    "several models": (with_entry("models/other.json", b"{}"), "it must hold one model"),
    "what is pickled": (
        with_weight(lambda entry: entry.update(use_pickle=True)),
        "is stored by pickle",
    ),
    "a tensor that is longer than its file": (
        with_meta("sizes", 400, 1, 3, 3),
        "`conv.weight` of shape (400, 1, 3, 3) and dtype float32 reaches over 14400 bytes",
    ),
    "a tensor of negative strides": (
        with_meta("strides", -9, 9, 3, 1),
        "`conv.weight` has the size {'as_int': -9}",
    ),
    "a tensor without all strides": (
        with_meta("strides"),
        "`conv.weight` has 4 sizes and 0 strides",
    ),
    "a tensor of another shape than the graph says": (
        with_meta("sizes", 2, 1, 3, 3),
        "`conv.weight` must be of shape (4, 1, 3, 3) and dtype float32",
    ),
    "a tensor that is not there": (
        lambda entries: edited(entries, WEIGHTS, lambda data: data["config"].pop("conv.weight")),
        "holds no numbers of `conv.weight`",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_torch_did_not_write_so(name: str) -> None:
    change, message = REFUSED[name]
    assert message in refusal(change)


def nodes(data: Any) -> list[Any]:
    found: list[Any] = data["graph_module"]["graph"]["nodes"]
    return found


def test_unknown_operators_are_listed_with_their_lines_and_counts() -> None:
    def rename(data: Any) -> None:
        for node, name in zip(nodes(data), ("first", "second", "second"), strict=False):
            node["target"] = f"torch.ops.mine.{name}.default"

    text = refusal(with_model(rename))
    assert "mine.second.default, 2 times, at " in text
    assert "mine.first.default, 1 time, at " in text
    assert "write_torch_files.py:" in text


def test_a_value_that_is_not_computed() -> None:
    def rename(data: Any) -> None:
        nodes(data)[1]["inputs"][0]["arg"] = {"as_tensor": {"name": "places"}}

    assert "`places` is used, which is not computed here" in refusal(with_model(rename))


def test_a_result_of_another_type_than_torch_found() -> None:
    def widen(data: Any) -> None:
        name = nodes(data)[0]["outputs"][0]["as_tensor"]["name"]
        data["graph_module"]["graph"]["tensor_values"][name]["dtype"] = 8

    assert "please report it" in refusal(with_model(widen))


def test_an_argument_of_a_kind_that_is_not_read() -> None:
    def other(data: Any) -> None:
        nodes(data)[0]["inputs"][0]["arg"] = {"as_custom_obj": {}}
        nodes(data)[0]["metadata"]["stack_trace"] = 'File "/of/mine/net.py", line 7, in forward'

    with pytest.raises(TorchImportError, match="of the kind `as_custom_obj` is not read") as caught:
        read_archive(changed(with_model(other)), "model.pt2")
    assert caught.value.relax_span == Span("/of/mine/net.py", 7)  # type: ignore[attr-defined]


def test_a_region_of_a_reentrant_checkpoint_is_read_as_one() -> None:
    frame = '  File "/torch/utils/checkpoint.py", line 278, in forward\n    outputs = run_{}(*args)'

    def other(data: Any) -> None:
        nodes(data)[0]["metadata"]["stack_trace"] = frame.format("function")
        nodes(data)[1]["metadata"]["stack_trace"] = frame.format("other")

    found = read_archive(changed(with_model(other)), "model.pt2").graph.nodes
    assert [node.is_reentrant for node in found[:3]] == [True, False, False]


def test_a_function_of_autograd_is_warned_of(tmp_path: Path) -> None:
    """Its `forward` is a frame more than there are modules."""
    frames = '  File "/of/mine/{0}.py", line 7, in forward\n    {0}(x)\n'
    trace = frames.format("net") + frames.format("twice")

    def of_function(data: Any) -> None:
        nodes(data)[0]["metadata"] = {"stack_trace": trace, "nn_module_stack": "L__self__,,Net"}

    file = tmp_path / "net.pt2"
    file.write_bytes(changed(with_model(of_function)).getvalue())
    with pytest.warns(
        UserWarning, match=r"`backward` of .*Function, of /of/mine/twice\.py:7, is not"
    ):
        from_torch(file)


def effect(data: Any, operator: str) -> None:
    """Let a check stand at the end, which a token orders, as `run_decompositions` writes it."""
    graph, signature = data["graph_module"]["graph"], data["graph_module"]["signature"]
    token, after, image = ({"as_tensor": {"name": name}} for name in ("token", "after", "images"))
    inputs = [token, {"as_operator": f"torch.ops.{operator}"}, image, {"as_string": "cholesky"}]
    graph["nodes"].append(
        {
            "target": "torch.ops.higher_order.with_effects",
            "inputs": [{"name": "", "arg": one} for one in inputs],
            "outputs": [after, {"as_none": True}],
            "metadata": {},
        }
    )
    graph["inputs"].insert(0, token)
    graph["outputs"].insert(0, after)
    signature["input_specs"].insert(0, {"token": {"arg": {"name": "token"}}})
    signature["output_specs"].insert(0, {"token": {"arg": {"name": "after"}}})


def test_a_check_of_linear_algebra_that_a_token_orders() -> None:
    check = "aten._linalg_check_errors.default"
    found = import_program(
        read_archive(changed(with_model(lambda data: effect(data, check))), "model.pt2")
    )
    plain = import_program(read_archive(changed(lambda entries: None), "model.pt2"))
    assert_structural_equal(found.mod, plain.mod)
    text = refusal(with_model(lambda data: effect(data, "mine.log.default")))
    assert "mine.log.default, 1 time" in text


def test_a_dtype_that_is_not_read() -> None:
    def other(data: Any) -> None:
        nodes(data)[0]["inputs"][0]["arg"] = {"as_scalar_type": 99}

    assert "the dtype with the number 99" in refusal(with_model(other))


@pytest.mark.parametrize("of_input", [False, True])
def test_a_tensor_of_a_dtype_that_is_not_read(of_input: bool) -> None:
    def other(data: Any) -> None:
        name = nodes(data)[0]["outputs"][0]["as_tensor"]["name"]
        for one in ("images", name) if of_input else (name,):
            data["graph_module"]["graph"]["tensor_values"][one]["dtype"] = 99
        nodes(data)[0]["metadata"]["stack_trace"] = 'File "/of/mine/net.py", line 7, in forward'

    with pytest.raises(TorchImportError, match="has a dtype or a layout") as caught:
        read_archive(changed(with_model(other)), "model.pt2")
    found = getattr(caught.value, "relax_span", None)
    assert found == (None if of_input else Span("/of/mine/net.py", 7))


@pytest.mark.parametrize("part", ["input", "output"])
def test_an_input_or_output_that_is_not_read(part: str) -> None:
    def other(data: Any) -> None:
        data["graph_module"]["signature"][f"{part}_specs"][0] = {"custom_obj": {}}

    assert f"an {part} of the kind `custom_obj` is not read" in refusal(with_model(other))


@pytest.mark.parametrize("value", [{"as_bool": True}, {"as_string": "mean"}, {"as_none": {}}])
def test_an_input_that_is_no_tensor_is_read_as_its_value(value: Any) -> None:
    def more(data: Any) -> None:
        spec = {"constant_input": {"name": "flag", "value": value}}
        data["graph_module"]["signature"]["input_specs"].append(spec)

    found = import_program(read_archive(changed(with_model(more)), "model.pt2"))
    same = import_program(read_archive(changed(lambda entries: None), "model.pt2"))
    assert_structural_equal(found.mod, same.mod)


def test_a_program_that_was_exported_inside_of_autocast() -> None:
    """Its types tell of casts, of which it holds nothing."""

    def cast(data: Any) -> None:
        name = nodes(data)[0]["outputs"][0]["as_tensor"]["name"]
        data["graph_module"]["graph"]["tensor_values"][name]["dtype"] = 13

    text = refusal(with_model(cast))
    assert "of which the program holds nothing: enter it in `forward`" in text


def test_an_input_that_is_a_number() -> None:
    def number(data: Any) -> None:
        data["graph_module"]["graph"]["tensor_values"].pop("more_bias")

    assert "the input `more_bias` is a number, and a backbone takes" in refusal(with_model(number))


def test_a_program_without_a_result() -> None:
    def drop(data: Any) -> None:
        outputs = data["graph_module"]["signature"]["output_specs"]
        outputs[:] = [one for one in outputs if "as_none" in one["user_output"]["arg"]]

    assert "`model.pt2` gives no tensor" in refusal(with_model(drop))


def test_a_parameter_that_is_written_to() -> None:
    def write(data: Any) -> None:
        (relu,) = (one for one in nodes(data) if "relu_" in one["target"])
        argument = {"name": "self", "arg": {"as_tensor": {"name": "p_norm_weight"}}, "kind": 1}
        results = [{"as_tensor": {"name": "written"}}]
        nodes(data).append({**relu, "inputs": [argument], "outputs": results, "name": "written"})
        tensors = data["graph_module"]["graph"]["tensor_values"]
        tensors["written"] = tensors["p_norm_weight"]

    text = refusal(with_model(write))
    assert "the parameter `norm.weight` is written to by the program, which an" in text


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        from_torch(tmp_path / "missing.pt2")


def test_a_result_of_unknown_size_is_refused_with_its_line() -> None:
    """The result of the program is made what its mask chooses."""

    def edit(data: Any) -> None:
        module = data["graph_module"]
        index = next(one for one in module["graph"]["nodes"] if "index.Tensor" in one["target"])
        name = index["outputs"][0]["as_tensor"]["name"]
        module["signature"]["output_specs"][0]["user_output"]["arg"] = {"as_tensor": {"name": name}}

    file = changed(with_model(edit), name="masked.pt2")
    with pytest.raises(TorchImportError, match=r"it is a result: choose by torch\.where") as caught:
        import_program(read_archive(file, "model.pt2"))
    assert "write_torch_files.py:" in "".join(caught.value.__notes__)


def test_a_complex_parameter() -> None:
    program = read_archive(FILE, FILE.name)
    weights = {**program.weights, "linear.weight": np.ones((6, 16), "complex64")}
    with pytest.raises(TorchImportError, match=r"`linear\.weight` is complex, and no optimizer"):
        import_program(replace(program, weights=weights))


def test_a_rule_that_counts_axes_of_a_scalar() -> None:
    """It ended in an IndexError without the operator and the line of the user."""
    reader = Interpreter(BlockBuilder(), Sizes())
    reader.bind("x", Var("x", TensorType((), "float32")))
    node = Node("aten.pdist.default", {"self": Ref("x")}, ("y",), Span("net.py", 7, 0, 7, 1))
    with pytest.raises(TorchImportError, match=r"aten\.pdist\.default: tuple index out of"):
        reader.run(Graph((), (node,), (), {}))
