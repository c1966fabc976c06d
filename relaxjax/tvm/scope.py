"""What of TVM has no place here, each with what to use in its stead."""

from collections.abc import Iterator

from relaxjax.script.namespace import NoPlaceError

# Where TVM has what layers are written with.
_LAYERS = " ".join(
    f"relax.frontend.nn{file}" for file in ("", ".core", ".exporter", ".modules", ".op", ".spec")
)
# What to use instead, and of what: lines of paths, or of names behind all the homes that have them.
_INSTEAD = {
    "the sizes of tensors are compared by `relaxjax.ir.dims.can_prove_equal`": """
        arith sym testing.check_bool_expr_is_true testing.utils.check_bool_expr_is_true
    """,
    "XLA chooses the schedules when a program is compiled: `relax.build` is all that is due": """
        auto_scheduler autotvm dlight meta_schedule relax.pipeline.static_shape_tuning_pipeline
        relax.transform: MetaScheduleApplyDatabase MetaScheduleTuneIRMod MetaScheduleTuneTIR
    """,
    "give a region to a backend of relaxjax.backends by `relaxjax.passes.RunCodegen`": """
        backend relax.backend
    """,
    (
        "programs become `jax.lax` and XLA writes the loops. A kernel of your own is a JAX "
        "function, a Pallas kernel for example, registered by "
        "`relaxjax.ops.packed.register_packed(name, traceable=True)` and called by "
        "`R.call_pure_packed`"
    ): f"""
        contrib relax.dpl.is_call_tir relax.dpl.pattern.is_call_tir relax.testing.emit_te
        relax.testing.nn.emit_te s_tir script.tirx.prim_func te testing.tir topi
        ir: CallingConv EnvFunc OpaqueExpr OpaqueType PointerType Range TensorLoad TensorRegion
        relax.analysis: has_reshape_pattern suggest_layout_transforms
        relax.op: call_tir call_tir_inplace call_tir_with_grad
        relax.transform: AllocateWorkspace AlterOpImpl AnnotateTIROpPattern
        relax.transform: AttachAttrLayoutFreeBuffers CallTIRRewrite FuseTIR
        relax.transform: SpecializePrimFuncBasedOnCallSite SplitCallTIRByPattern
        relax.transform: SplitLayoutRewritePreproc legalize_ops
        relax.utils: create_prim_func gen_call_tir_inputs
        relax: call_tir call_tir_inplace call_tir_with_grad
        tirx: PrimFunc Schedule schedule stmt_functor transform
        {_LAYERS}: ExternModule ObjectModule OutType SourceModule add_extern extern tensor_expr_op
        {_LAYERS}: tensor_ir_op tensor_ir_inplace_op renormalize_top_p_top_k_prob
        {_LAYERS}: sample_top_p_top_k_from_sorted_prob
    """,
    "a program is not lowered to a bytecode here: `relax.build` hands it to XLA": """
        driver libinfo support target.codegen
        relax.op.builtin: alloc_tensor builtin
        relax.op.memory: alloc_storage alloc_tensor ensure_zero_offset kill_storage kill_tensor
        relax.op.memory: memory view
        relax.op: call_builtin_with_ctx vm
        relax.pipeline: dataflow_lower_passes finalize_passes legalize_passes
        relax.pipeline: library_dispatch_passes
        relax.testing: lib_comparator runtime_builtin
        relax.transform: AttachExternModules ComputePrimValue KillAfterLastUse LowerAllocTensor
        relax.transform: LowerGPUIPCAllocStorage LowerRuntimeBuiltin RewriteCUDAGraph
        relax.transform: RewriteDataflowReshape StaticPlanBlockMemory VMBuiltinLower VMShapeLower
        relax: ExecBuilder VMInstrumentReturnKind exec_builder
    """,
    "programs run in the process that builds them; `relaxjax.lowering.export` writes files": """
        exec micro rpc
        error: RPCError RPCSessionTimeoutError
        runtime: Module load_module load_static_library system_lib
        testing: local_run popen_pool rpc_run
    """,
    "import its models by TVM to Relax": "relay",
    "say where values lie by `R.DTensor` and `R.dist`, or give `SetupTrainer` a mesh": """
        relax.distributed relax.op.distributed relax.transform.IPCAllReduceRewrite runtime.disco
    """,
    "`relax.BlockBuilder` builds a function statement by statement": """
        relax.testing.IRBuilder script.ir_builder
        relax.script: Else If Then arg emit emit_match_cast emit_var_binding emit_with_ty
        relax.script: emit_with_type func_name func_ret_ty func_ret_type func_ret_value
    """,
    "a script has the dialects I, R, T and L": "script.register_dialect",
    "JAX knows its devices: `tvm.device(name)`": "target.detect_target",
    "a target is a name: cpu, llvm, cuda, gpu, rocm, tpu": "target: list_tags register_tag tag",
    "relaxjax.lowering.register_packed gives a Python function to programs": "script.ir.pyfunc",
    "a Python function of a module is a registered one: `register_packed`": """
        relax: BasePyModule base_py_module
    """,
    "`relaxjax.memory` tells the memory of a program": "relax.analysis.estimate_memory_usage",
    "a node never changes: make a variable of the type, or `relax.Var(name, ty)` in its place": """
        relax.expr._update_type
    """,
    (
        "make the module by TVM, print it by `mod.script(show_meta=True)`, and read the text by "
        "`from_source` of relaxjax.script; `relaxjax.from_torch` and `relaxjax.from_jax` read "
        "models of PyTorch and functions of JAX"
    ): "relax.frontend: onnx stablehlo tflite",
    "a pipeline is a `Sequential` of passes: give it to whom it is for": """
        relax.pipeline.register_pipeline relax.register_pipeline
    """,
    "a program prints as `mod.script()`, and `relaxjax.ir.save_json` writes its nodes": """
        relax.testing: ast_printer dump_ast
    """,
    "an expression knows one place of the script, the `Span` of its line": "ir.SequentialSpan",
    "a node is an object of a Python class: make it by calling that": """
        ir.make_node
        relax.dpl.pattern: make_node register_df_node
        relax.dpl: make_node register_df_node
    """,
    "the type of a function from outside is `R.Callable`, `FuncType()`": "relax.PackedFuncType",
    (
        "`LazyGetInput` and `LazySetOutput` let a program ask for weights and hand over results, "
        "by functions that it takes; memory is freed without `R.vm.kill_object`"
    ): "relax.transform.LazyTransformParams",
    "XLA chooses the number of its threads by itself": "runtime.num_threads",
    "nothing is downloaded here": "testing.install_request_hook",
    "nothing here takes a lock: `pytest -n 0` runs tests one by one": "testing.run_with_gpu_lock",
    (
        "no rule is registered for all programs: `relaxjax.passes.CustomGradient` gives one to a "
        "module, and `relaxjax.ops.op` declares an operator with all its rules"
    ): "ir.op.register_op_attr ir.register_op_attr",
    "XLA chooses the layouts and the memory of what is inside a program by itself": """
        relax.transform: DataflowUseInplaceCalls FuseTransposeMatmul OptimizeLayoutTransform
    """,
    "programs run where JAX runs: `tvm.cpu()`, `tvm.cuda()`, `tvm.rocm()`, and TPUs": """
        ext_dev hexagon metal opencl vpi vulkan webgpu
        runtime relax.script: ext_dev hexagon metal opencl vpi vulkan webgpu
    """,
    (
        "a method gives all that it changes as a result: no effect goes through a program. "
        "`R.print` prints a value outside of dataflow blocks, and a cache is an argument and a "
        "result"
    ): f"{_LAYERS}: Effect IOEffect KVCache Object debug_func print_",
    "`export_tvm` of a module writes the program": f"{_LAYERS}: Exporter",
    "a module is written out where it is called: no function is made of it": f"""
        {_LAYERS}: SubroutineMixin
    """,
}


def _paths(text: str) -> Iterator[str]:
    for line in text.splitlines():
        homes, _, names = line.rpartition(":")
        for name in names.split():
            yield from (f"{home}.{name}" for home in homes.split()) if homes else [name]


# A path, and all that lies below it.
OUT_OF_SCOPE = {path: instead for instead, text in _INSTEAD.items() for path in _paths(text)}


class OutOfScopeImportError(ModuleNotFoundError):
    """An import of what has no place here."""


class OutOfScopeNameError(NoPlaceError):
    """A name that has no place here."""


def reason(path: str) -> str | None:
    """Why there is nothing at a path of TVM's, and what to use; None where it is in scope."""
    parts = path.split(".")
    above = (".".join(parts[:end]) for end in range(len(parts), 0, -1))
    return next((OUT_OF_SCOPE[item] for item in above if item in OUT_OF_SCOPE), None)
