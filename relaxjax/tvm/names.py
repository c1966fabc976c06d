"""Where TVM's names are: the one table that says which module of TVM has what, and from where.

A line is `home: name name theirs=ours`, where `*` stands for all public names of a home, and a home
that begins with a dot lies in `relaxjax.tvm`. What the file at a path has itself needs no line.
"""

# What several modules of TVM have.
_FUNCTIONS = ".ffi: get_global_func register_global_func"
_COMPARED = """
    ir: assert_structural_equal load_json save_json structural_equal
    .ir_queries: structural_hash
"""
_EXPRESSIONS = """
    ir: Call Constant DataTypeImm Expr ExternFunc GlobalVar Op PrimExpr Span StringImm
    ir: Tuple TupleGetItem Var BaseExpr=Expr GenericConst=Constant Node=Expr RelaxExpr=Expr
    ir: ExprOperand=Expr ExprWithOp=Expr
    .ir_queries: is_prim_expr is_prim_var
    script.tirx: FloatImm IntImm
    script.values: const
"""
_RELAX_EXPRESSIONS = """
    ir: BindingBlock Call Constant DataflowBlock DataflowVar Function GlobalVar If MatchCast
    ir: SeqExpr ShapeExpr VarBinding
    .ir_queries: convert_to_expr extern get_shape_of make_shape
    script.values: prim_value
"""
_TYPES = """
    ir: AnyType FuncStructInfo FuncType ObjectStructInfo ObjectType PrimStructInfo PrimType
    ir: ShapeStructInfo ShapeType StructInfo TensorStructInfo TensorType TupleStructInfo TupleType
    ir: Type
    script.ir: StringType
"""
_INFOS = "ir.global_info: DummyGlobalInfo GlobalInfo VDevice"
_INSTRUMENTS = """
    passes: DumpIR PassPrintingInstrument PassTimingInstrument PrintAfterAll PrintBeforeAll
    passes: WellFormedInstrument pass_instrument
    .instrument: PassInstrument
"""

# The families of operators that have a name of their own in scripts, too: `R.nn.relu`.
_NESTED = ("grad", "image", "nn", "vision")

NAMES: dict[str, str] = {
    "": f"""
        {_FUNCTIONS}
        .errors: TVMError
        .nd: NDArray
        .runtime: device_from_target
        ir: Object=Expr
    """,
    "error": ".errors: *",
    "instrument": _INSTRUMENTS,
    "ir": f"""
        {_EXPRESSIONS} {_TYPES} {_COMPARED} {_INFOS}
        ir: BaseFunc=Function SourceName=Span
        ir.attrs: Attrs DictAttrs=Attrs
    """,
    "ir.attrs": "ir.attrs: Attrs DictAttrs=Attrs",
    "ir.base": f"""
        {_COMPARED} {_FUNCTIONS}
        ir: Node=Expr Span SourceName=Span
    """,
    "ir.expr": _EXPRESSIONS,
    "ir.function": "ir: BaseFunc=Function Function",
    "ir.global_info": _INFOS,
    "ir.instrument": _INSTRUMENTS,
    "ir.module": "ir: IRModule",
    "ir.op": "ir: Op",
    "ir.prim": f"""
        {_EXPRESSIONS}
        script.tirx: *
    """,
    "ir.type": _TYPES,
    "relax": f"""
        {_RELAX_EXPRESSIONS} {_INFOS}
        ir: Span
        .building: VMExecutable
        .relax.expr_functor: ExprFunctor
        .relax.pipeline: get_default_pipeline
        script.values: call_dps_packed call_pure_packed
    """,
    "relax.analysis": ".type_analysis: *",
    "relax.dpl": """
        dpl: *
        ir: DataflowBlock Expr Node=Expr Op Var
    """,
    "relax.dpl.context": "dpl: PatternContext",
    "relax.dpl.rewrite": """
        dpl: ExprPatternRewriter OrRewriter PatternMatchingRewriter rewrite_bindings rewrite_call
    """,
    "relax.expr": f"""
        {_RELAX_EXPRESSIONS}
        ir: BaseFunc=Function Node=Expr Span
    """,
    "relax.frontend.nn": "ir.builder: BlockBuilder",
    "relax.frontend.nn.modules": ".relax.frontend.nn.diffusion: *",
    "relax.global_info": _INFOS,
    "relax.ir": "",
    "relax.ir.instrument": _INSTRUMENTS,
    "relax.script": """
        script.relax: *
        script.relax.builtin: stop_lift_params
        ir: SeqExpr
    """,
    "relax.script.builder": "script.relax: *",
    "relax.script.parser": "script.relax: *",
    "relax.script.parser.entry": """
        .ir_queries: TypeProxy
        script.relax: *
    """,
    "relax.op": """
        script.relax: *
        script.relax.vision: all_class_non_max_suppression get_valid_counts multibox_transform_loc
        script.relax.vision: non_max_suppression roi_align roi_pool
        .relax.op.base: register_gradient
    """,
    "relax.op.builtin": "script.relax.builtin: *",
    "relax.op.base": "script.relax: *",
    **{f"relax.op.{family}": f"script.relax.{family}: * ir: Expr" for family in _NESTED},
    "relax.pipeline": "",
    "relax.testing": """
        .relax.testing.nn: *
        .relax.testing.attention: *
        .relax.testing.matmul: *
    """,
    "relax.testing.vm": ".relax.vm: VirtualMachine",
    "relax.transform": "passes: * .legalizing: LegalizeOps",
    "relax.type": _TYPES,
    "relax.utils": ".ir_queries: convert_to_expr",
    "relax.vm_build": """
        .building: VMExecutable build
    """,
    "runtime": f"""
        {_FUNCTIONS}
        .devices: cpu cuda device gpu rocm
        .params: *
        lowering: Executable
        script.values: const=prim_value
    """,
    "runtime.params": ".params: *",
    "runtime.vm": ".relax.vm: VirtualMachine",
    "script": "",
    "target.target": ".target: Target TargetKind",
    "testing.utils": ".testing: *",
    "tirx": "script.tirx: * script.values: const=prim_value",
    "transform": "passes: *",
    "tvm_ffi": f"""
        {_FUNCTIONS} {_COMPARED}
        .ffi: *
    """,
}

# The files that TVM's operators are in; here all are in one module.
_FAMILIES = (
    *("binary", "create", "datatype", "index", "linear_algebra", "manipulate", "mask", "qdq"),
    *("sampling", "search", "set", "sorting", "statistical", "ternary", "unary"),
)
# Modules that are others by another path, of TVM's or of ours.
SAME: dict[str, str] = {
    "ir.transform": "transform",
    "ir.type_": "ir.type",
    "relax.analysis.analysis": "relax.analysis",
    "relax.dpl.pattern": "relax.dpl",
    "relax.struct_info": "relax.type",
    "relax.transform.transform": "relax.transform",
    "prim": "ir.prim",
    "relax.ty": "relax.type",
    "script.ir": "relaxjax.script.ir",
    "script.parser.ir": "relaxjax.script.ir",
    "script.parser.relax": "relax.script.parser",
    "script.parser.relax.entry": "relax.script.parser.entry",
    "script.parser.tir": "relaxjax.script.tirx",
    "script.parser.tirx": "relaxjax.script.tirx",
    "script.relax": "relaxjax.script.relax",
    "script.tir": "relaxjax.script.tirx",
    "script.tirx": "relaxjax.script.tirx",
    "tir": "tirx",
    "tirx.expr": "ir.prim",
    **{f"relax.op.{family}": "relax.op" for family in _FAMILIES},
}
