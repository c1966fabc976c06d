"""What of TVM has no place here, each with what to use in its stead."""

from relaxjax.script.namespace import NoPlaceError

_KERNELS = (
    "programs become `jax.lax` and XLA writes the loops. A kernel of your own is a JAX function, "
    "a Pallas kernel for example, registered by `relaxjax.ops.packed.register_packed(name, "
    "traceable=True)` and called by `R.call_pure_packed`"
)
_TUNING = "XLA chooses the schedules when a program is compiled: `relax.build` is all that is due"
_LOWERED = "a program is not lowered to a bytecode here: `relax.build` hands it to XLA"
_REMOTE = "programs run in the process that builds them; `relaxjax.lowering.export` writes files"
_IMPORTED = (
    "make the module by TVM, print it by `mod.script(show_meta=True)`, and read the text by "
    "`from_source` of relaxjax.script; `relaxjax.from_torch` and `relaxjax.from_jax` read models "
    "of PyTorch and functions of JAX"
)
_DISTRIBUTED = "say where values lie by `R.DTensor` and `R.dist`, or give `SetupTrainer` a mesh"
_CODEGEN = "give a region to a backend of relaxjax.backends by `relaxjax.passes.RunCodegen`"
_PIPELINE = "a pipeline is a `Sequential` of passes: give it to whom it is for"
_PRINTED = "a program prints as `mod.script()`, and `relaxjax.ir.save_json` writes its nodes"
_REGISTERED = (
    "no rule is registered for all programs: `relaxjax.passes.CustomGradient` gives one to a "
    "module, and `relaxjax.ops.op` declares an operator with all its rules"
)

_CLASSES = "a node is an object of a Python class: make it by calling that"
_FROZEN = "a node never changes: make a variable of the type, or `relax.Var(name, ty)` in its place"
_DEVICES = "programs run where JAX runs: `tvm.cpu()`, `tvm.cuda()`, `tvm.rocm()`, and TPUs"
_BUILT = "`relax.BlockBuilder` builds a function statement by statement"
_FUSED = "XLA chooses the layouts and the memory of what is inside a program by itself"
_NO_DEVICES = ("ext_dev", "hexagon", "metal", "opencl", "vpi", "vulkan", "webgpu")
_FRAMES = (
    *("Else", "If", "Then", "arg", "emit", "emit_match_cast", "emit_var_binding"),
    *("emit_with_ty", "emit_with_type", "func_name", "func_ret_ty", "func_ret_type"),
    "func_ret_value",
)

_IMPORTERS = ("onnx", "stablehlo", "tflite")
_EFFECTS = (
    "a method gives all that it changes as a result: no effect goes through a program. `R.print` "
    "prints a value outside of dataflow blocks, and a cache is an argument and a result"
)
_OF_LAYERS = {
    **dict.fromkeys(("Effect", "IOEffect", "KVCache", "Object"), _EFFECTS),
    **dict.fromkeys(("debug_func", "print_"), _EFFECTS),
    **dict.fromkeys(("ExternModule", "ObjectModule", "OutType", "SourceModule"), _KERNELS),
    **dict.fromkeys(("add_extern", "extern", "tensor_expr_op", "tensor_ir_op"), _KERNELS),
    **dict.fromkeys(("tensor_ir_inplace_op", "renormalize_top_p_top_k_prob"), _KERNELS),
    "sample_top_p_top_k_from_sorted_prob": _KERNELS,
    "Exporter": "`export_tvm` of a module writes the program",
    "SubroutineMixin": "a module is written out where it is called: no function is made of it",
}

# A path, and all that lies below it.
_STORAGE = (
    "alloc_storage",
    "alloc_tensor",
    "ensure_zero_offset",
    "kill_storage",
    "kill_tensor",
    "memory",
    "view",
)
OUT_OF_SCOPE = {
    **dict.fromkeys(_NO_DEVICES, _DEVICES),
    **{f"runtime.{name}": _DEVICES for name in _NO_DEVICES},
    **{f"relax.script.{name}": _DEVICES for name in _NO_DEVICES},
    **{f"relax.script.{name}": _BUILT for name in _FRAMES},
    "arith": "the sizes of tensors are compared by `relaxjax.ir.dims.can_prove_equal`",
    "auto_scheduler": _TUNING,
    "autotvm": _TUNING,
    "backend": _CODEGEN,
    "contrib": _KERNELS,
    "dlight": _TUNING,
    "driver": _LOWERED,
    "error.RPCError": _REMOTE,
    "error.RPCSessionTimeoutError": _REMOTE,
    "exec": _REMOTE,
    "libinfo": _LOWERED,
    "meta_schedule": _TUNING,
    "micro": _REMOTE,
    "relay": "import its models by TVM to Relax",
    "rpc": _REMOTE,
    "runtime.disco": _DISTRIBUTED,
    "runtime.Module": _REMOTE,
    "runtime.load_module": _REMOTE,
    "runtime.load_static_library": _REMOTE,
    "runtime.system_lib": _REMOTE,
    "s_tir": _KERNELS,
    "sym": "the sizes of tensors are compared by `relaxjax.ir.dims.can_prove_equal`",
    "script.ir_builder": _BUILT,
    "script.register_dialect": "a script has the dialects I, R, T and L",
    "support": _LOWERED,
    "target.codegen": _LOWERED,
    "target.detect_target": "JAX knows its devices: `tvm.device(name)`",
    "target.list_tags": "a target is a name: cpu, llvm, cuda, gpu, rocm, tpu",
    "target.register_tag": "a target is a name: cpu, llvm, cuda, gpu, rocm, tpu",
    "target.tag": "a target is a name: cpu, llvm, cuda, gpu, rocm, tpu",
    "te": _KERNELS,
    "topi": _KERNELS,
    "testing.local_run": _REMOTE,
    "testing.popen_pool": _REMOTE,
    "testing.rpc_run": _REMOTE,
    "testing.tir": _KERNELS,
    "tirx.PrimFunc": _KERNELS,
    "tirx.Schedule": _KERNELS,
    "tirx.schedule": _KERNELS,
    "tirx.stmt_functor": _KERNELS,
    "tirx.transform": _KERNELS,
    "script.tirx.prim_func": _KERNELS,
    "script.ir.pyfunc": "relaxjax.lowering.register_packed gives a Python function to programs",
    "relax.BasePyModule": "a Python function of a module is a registered one: `register_packed`",
    "relax.base_py_module": "a Python function of a module is a registered one: `register_packed`",
    "relax.ExecBuilder": _LOWERED,
    "relax.VMInstrumentReturnKind": _LOWERED,
    "relax.analysis.estimate_memory_usage": "`relaxjax.memory` tells the memory of a program",
    "relax.analysis.has_reshape_pattern": _KERNELS,
    "relax.analysis.suggest_layout_transforms": _KERNELS,
    "relax.backend": _CODEGEN,
    "relax.call_tir": _KERNELS,
    "relax.call_tir_inplace": _KERNELS,
    "relax.call_tir_with_grad": _KERNELS,
    "relax.distributed": _DISTRIBUTED,
    "relax.dpl.is_call_tir": _KERNELS,
    "relax.dpl.pattern.is_call_tir": _KERNELS,
    "relax.exec_builder": _LOWERED,
    "relax.expr._update_type": _FROZEN,
    **{f"relax.frontend.{name}": _IMPORTED for name in _IMPORTERS},
    **{f"relax.frontend.nn.{name}": why for name, why in _OF_LAYERS.items()},
    **{f"relax.frontend.nn.core.{name}": why for name, why in _OF_LAYERS.items()},
    **{f"relax.frontend.nn.exporter.{name}": why for name, why in _OF_LAYERS.items()},
    **{f"relax.frontend.nn.modules.{name}": why for name, why in _OF_LAYERS.items()},
    **{f"relax.frontend.nn.op.{name}": why for name, why in _OF_LAYERS.items()},
    **{f"relax.frontend.nn.spec.{name}": why for name, why in _OF_LAYERS.items()},
    "relax.op.builtin.alloc_tensor": _LOWERED,
    "relax.op.builtin.builtin": _LOWERED,
    "relax.op.call_builtin_with_ctx": _LOWERED,
    "relax.op.call_tir": _KERNELS,
    "relax.op.call_tir_inplace": _KERNELS,
    "relax.op.call_tir_with_grad": _KERNELS,
    "relax.op.distributed": _DISTRIBUTED,
    **{f"relax.op.memory.{name}": _LOWERED for name in _STORAGE},
    "relax.op.vm": _LOWERED,
    **{
        f"relax.pipeline.{stage}_passes": _LOWERED
        for stage in ("library_dispatch", "legalize", "dataflow_lower", "finalize")
    },
    "relax.pipeline.register_pipeline": _PIPELINE,
    "relax.pipeline.static_shape_tuning_pipeline": _TUNING,
    "relax.register_pipeline": _PIPELINE,
    "relax.testing.ast_printer": _PRINTED,
    "relax.testing.dump_ast": _PRINTED,
    "relax.testing.emit_te": _KERNELS,
    "relax.testing.lib_comparator": _LOWERED,
    "relax.testing.nn.emit_te": _KERNELS,
    "relax.testing.runtime_builtin": _LOWERED,
    "relax.utils.create_prim_func": _KERNELS,
    "relax.utils.gen_call_tir_inputs": _KERNELS,
    "ir.CallingConv": _KERNELS,
    "ir.EnvFunc": _KERNELS,
    "ir.OpaqueExpr": _KERNELS,
    "ir.OpaqueType": _KERNELS,
    "ir.PointerType": _KERNELS,
    "ir.Range": _KERNELS,
    "ir.TensorLoad": _KERNELS,
    "ir.TensorRegion": _KERNELS,
    "ir.SequentialSpan": "an expression knows one place of the script, the `Span` of its line",
    "ir.make_node": _CLASSES,
    "relax.PackedFuncType": "the type of a function from outside is `R.Callable`, `FuncType()`",
    "relax.dpl.make_node": _CLASSES,
    "relax.dpl.pattern.make_node": _CLASSES,
    "relax.dpl.register_df_node": _CLASSES,
    "relax.dpl.pattern.register_df_node": _CLASSES,
    "relax.testing.IRBuilder": _BUILT,
    "relax.transform.LazyTransformParams": (
        "`LazyGetInput` and `LazySetOutput` let a program ask for weights and hand over results, "
        "by functions that it takes; memory is freed without `R.vm.kill_object`"
    ),
    "runtime.num_threads": "XLA chooses the number of its threads by itself",
    "testing.check_bool_expr_is_true": (
        "the sizes of tensors are compared by `relaxjax.ir.dims.can_prove_equal`"
    ),
    "testing.install_request_hook": "nothing is downloaded here",
    "testing.run_with_gpu_lock": "nothing here takes a lock: `pytest -n 0` runs tests one by one",
    "testing.utils.check_bool_expr_is_true": (
        "the sizes of tensors are compared by `relaxjax.ir.dims.can_prove_equal`"
    ),
    "ir.register_op_attr": _REGISTERED,
    "ir.op.register_op_attr": _REGISTERED,
    "relax.transform.legalize_ops": _KERNELS,
    **dict.fromkeys(
        (
            "relax.transform.AllocateWorkspace",
            "relax.transform.AlterOpImpl",
            "relax.transform.AnnotateTIROpPattern",
            "relax.transform.AttachAttrLayoutFreeBuffers",
            "relax.transform.CallTIRRewrite",
            "relax.transform.FuseTIR",
            "relax.transform.SpecializePrimFuncBasedOnCallSite",
            "relax.transform.SplitCallTIRByPattern",
            "relax.transform.SplitLayoutRewritePreproc",
        ),
        _KERNELS,
    ),
    **dict.fromkeys(
        (
            "relax.transform.AttachExternModules",
            "relax.transform.ComputePrimValue",
            "relax.transform.KillAfterLastUse",
            "relax.transform.LowerAllocTensor",
            "relax.transform.LowerGPUIPCAllocStorage",
            "relax.transform.LowerRuntimeBuiltin",
            "relax.transform.RewriteCUDAGraph",
            "relax.transform.RewriteDataflowReshape",
            "relax.transform.StaticPlanBlockMemory",
            "relax.transform.VMBuiltinLower",
            "relax.transform.VMShapeLower",
        ),
        _LOWERED,
    ),
    **dict.fromkeys(
        (
            "relax.transform.MetaScheduleApplyDatabase",
            "relax.transform.MetaScheduleTuneIRMod",
            "relax.transform.MetaScheduleTuneTIR",
        ),
        _TUNING,
    ),
    "relax.transform.DataflowUseInplaceCalls": _FUSED,
    "relax.transform.FuseTransposeMatmul": _FUSED,
    "relax.transform.IPCAllReduceRewrite": _DISTRIBUTED,
    "relax.transform.OptimizeLayoutTransform": _FUSED,
}


class OutOfScopeImportError(ModuleNotFoundError):
    """An import of what has no place here."""


class OutOfScopeNameError(NoPlaceError):
    """A name that has no place here."""


def reason(path: str) -> str | None:
    """Why there is nothing at a path of TVM's, and what to use; None where it is in scope."""
    parts = path.split(".")
    above = (".".join(parts[:end]) for end in range(len(parts), 0, -1))
    return next((OUT_OF_SCOPE[item] for item in above if item in OUT_OF_SCOPE), None)
