"""Passes: pure functions from module to module, each in its own file, and what runs them."""

from relaxjax.backends import get_patterns_with_prefix as get_patterns_with_prefix
from relaxjax.dpl import FusionPattern as FusionPattern
from relaxjax.dpl import PatternCheckContext as PatternCheckContext

from .differentiation.custom_gradient import CustomGradient as CustomGradient
from .differentiation.gradient import Gradient as Gradient
from .differentiation.gradient import GradientError as GradientError
from .differentiation.jvp import HessianVectorProduct as HessianVectorProduct
from .differentiation.jvp import Jvp as Jvp
from .differentiation.lazy_gradient_init import LazyGradientInit as LazyGradientInit
from .distribution.annotate_sharding import AnnotateSharding as AnnotateSharding
from .distribution.data_parallel import DataParallel as DataParallel
from .distribution.data_parallel import FullySharded as FullySharded
from .distribution.propagate_sharding import PropagateSharding as PropagateSharding
from .distribution.sequence_parallel import SequenceParallel as SequenceParallel
from .distribution.tensor_parallel import TensorParallel as TensorParallel
from .infrastructure.base import PassFactory as PassFactory
from .infrastructure.base import pass_factory as pass_factory
from .infrastructure.config import register_config as register_config
from .infrastructure.context import PassContext as PassContext
from .infrastructure.context import build_config as build_config
from .infrastructure.decorators import dataflowblock_pass as dataflowblock_pass
from .infrastructure.decorators import function_pass as function_pass
from .infrastructure.decorators import module_pass as module_pass
from .infrastructure.error_notes import in_function as in_function
from .infrastructure.hooks import pass_instrument as pass_instrument
from .infrastructure.info import PassInfo as PassInfo
from .infrastructure.instruments import DumpIR as DumpIR
from .infrastructure.instruments import PassHistory as PassHistory
from .infrastructure.instruments import PassPrintingInstrument as PassPrintingInstrument
from .infrastructure.instruments import PassTimingInstrument as PassTimingInstrument
from .infrastructure.instruments import PrintAfterAll as PrintAfterAll
from .infrastructure.instruments import PrintBeforeAll as PrintBeforeAll
from .infrastructure.instruments import WellFormedInstrument as WellFormedInstrument
from .infrastructure.kinds import DataflowBlockPass as DataflowBlockPass
from .infrastructure.kinds import FunctionPass as FunctionPass
from .infrastructure.kinds import ModulePass as ModulePass
from .infrastructure.kinds import Pass as Pass
from .infrastructure.named import get_pass as get_pass
from .infrastructure.pipeline import PipelineError as PipelineError
from .infrastructure.pipeline import parse_pipeline as parse_pipeline
from .infrastructure.pipeline import pipeline_text as pipeline_text
from .infrastructure.sequential import Sequential as Sequential
from .layout.alter_op_layout import AlterOpLayout as AlterOpLayout
from .layout.channels_last import ChannelsLast as ChannelsLast
from .layout.convert_layout import ConvertLayout as ConvertLayout
from .memory.loops.update_in_loops import UpdateInLoops as UpdateInLoops
from .memory.offload import OffloadResiduals as OffloadResiduals
from .memory.program.step import MemoryPlanError as MemoryPlanError
from .memory.rematerialize import Rematerialize as Rematerialize
from .memory.store_draws import StoreDraws as StoreDraws
from .memory.store_results import StoreResults as StoreResults
from .operators.adjust_matmul_order import AdjustMatmulOrder as AdjustMatmulOrder
from .operators.backward_fold_scale_axis import (
    BackwardFoldScaleAxis as BackwardFoldScaleAxis,
)
from .operators.block_sparse import SparseWeights as SparseWeights
from .operators.block_sparse import process_params as process_params
from .operators.canonicalize_ops import CanonicalizeOps as CanonicalizeOps
from .operators.combine_parallel import (
    CombineParallelBatchMatmul as CombineParallelBatchMatmul,
)
from .operators.combine_parallel import CombineParallelConv2D as CombineParallelConv2D
from .operators.combine_parallel import CombineParallelDense as CombineParallelDense
from .operators.combine_parallel import CombineParallelMatmul as CombineParallelMatmul
from .operators.dense_to_sparse import DenseToSparse as DenseToSparse
from .operators.expand_matmul_of_sum import ExpandMatmulOfSum as ExpandMatmulOfSum
from .operators.fast_math import FastMath as FastMath
from .operators.fast_math import FastMathTransform as FastMathTransform
from .operators.fold_batchnorm_to_conv2d import (
    FoldBatchnormToConv2D as FoldBatchnormToConv2D,
)
from .operators.fold_scale_axis import FoldScaleAxis as FoldScaleAxis
from .operators.forward_fold_scale_axis import ForwardFoldScaleAxis as ForwardFoldScaleAxis
from .operators.fuse_product_loss import FuseProductLoss as FuseProductLoss
from .operators.legalize import Legalize as Legalize
from .operators.legalize import register_legalize as register_legalize
from .operators.legalize_ops import LegalizeOps as LegalizeOps
from .operators.multiply_rows_once import MultiplyRowsOnce as MultiplyRowsOnce
from .operators.remove_redundant_reshape import RemoveRedundantReshape as RemoveRedundantReshape
from .operators.reorder_permute_dims_after_concat import (
    ReorderPermuteDimsAfterConcat as ReorderPermuteDimsAfterConcat,
)
from .operators.reorder_take_after_matmul import ReorderTakeAfterMatmul as ReorderTakeAfterMatmul
from .operators.simplify_fc_transpose import SimplifyFCTranspose as SimplifyFCTranspose
from .operators.simplify_fc_transpose import search_fc_transpose as search_fc_transpose
from .operators.simplify_inference import SimplifyInference as SimplifyInference
from .operators.to_mixed_precision import ToMixedPrecision as ToMixedPrecision
from .partition.annotate_target import AnnotateTarget as AnnotateTarget
from .partition.fuse_ops import FuseOps as FuseOps
from .partition.fuse_ops_by_pattern import FuseOpsByPattern as FuseOpsByPattern
from .partition.group_by_vdevice import GroupByVDevice as GroupByVDevice
from .partition.merge_compiler_regions import MergeCompilerRegions as MergeCompilerRegions
from .partition.merge_composite import MergeComposite as MergeComposite
from .partition.merge_composite_functions import MergeCompositeFunctions as MergeCompositeFunctions
from .partition.partition_graph import PartitionGraph as PartitionGraph
from .partition.realize_vdevice import RealizeVDevice as RealizeVDevice
from .partition.rewrite_annotated_ops import RewriteAnnotatedOps as RewriteAnnotatedOps
from .partition.run_codegen import RunCodegen as RunCodegen
from .partition.update_vdevice import UpdateVDevice as UpdateVDevice
from .raising.raise_ops import RaiseOps as RaiseOps
from .raising.report import raising_report as raising_report
from .raising.sums_as_products import SumsAsProducts as SumsAsProducts
from .simplification.canonicalize_bindings import CanonicalizeBindings as CanonicalizeBindings
from .simplification.canonicalize_cast import CanonicalizeCast as CanonicalizeCast
from .simplification.dead_code_elimination import DeadCodeElimination as DeadCodeElimination
from .simplification.eliminate_common_subexpr import (
    EliminateCommonSubexpr as EliminateCommonSubexpr,
)
from .simplification.fold_constant import FoldConstant as FoldConstant
from .simplification.join_loops import JoinLoops as JoinLoops
from .simplification.remove_unused_functions import RemoveUnusedFunctions as RemoveUnusedFunctions
from .simplification.share_product_loss import ShareProductLoss as ShareProductLoss
from .simplification.simplify_expr import SimplifyExpr as SimplifyExpr
from .simplification.simplify_gradient import SimplifyGradient as SimplifyGradient
from .standard import standard_pipeline as standard_pipeline
from .structure.attach_global_symbol import AttachGlobalSymbol as AttachGlobalSymbol
from .structure.bind_params import BindParams as BindParams
from .structure.bind_symbolic_vars import BindSymbolicVars as BindSymbolicVars
from .structure.bundle_model_params import BundleModelParams as BundleModelParams
from .structure.change_batch import ChangeBatch as ChangeBatch
from .structure.convert_to_dataflow import ConvertToDataflow as ConvertToDataflow
from .structure.dataflow_block_rewrite import DataflowBlockRewrite as DataflowBlockRewrite
from .structure.eta_expand import EtaExpand as EtaExpand
from .structure.expand_tuple_arguments import ExpandTupleArguments as ExpandTupleArguments
from .structure.infer_type import InferType as InferType
from .structure.inline import Inline as Inline
from .structure.inline import InlinePrivateFunctions as InlinePrivateFunctions
from .structure.lambda_lift import LambdaLift as LambdaLift
from .structure.lazy_get_input import LazyGetInput as LazyGetInput
from .structure.lazy_set_output import LazySetOutput as LazySetOutput
from .structure.lift_transform_params import LiftTransformParams as LiftTransformParams
from .structure.normalize import Normalize as Normalize
from .structure.normalize_global_var import NormalizeGlobalVar as NormalizeGlobalVar
from .structure.partial_evaluate import PartialEvaluate as PartialEvaluate
from .structure.print_ir import PrintIR as PrintIR
from .structure.remove_purity_checking import RemovePurityChecking as RemovePurityChecking
from .structure.remove_unused_outputs import RemoveUnusedOutputs as RemoveUnusedOutputs
from .structure.remove_unused_parameters import RemoveUnusedParameters as RemoveUnusedParameters
from .structure.roll_blocks import RollBlocks as RollBlocks
from .structure.to_a_normal_form import ToANormalForm as ToANormalForm
from .structure.to_cps import ToCPS as ToCPS
from .structure.to_cps import to_cps as to_cps
from .structure.to_cps import un_cps as un_cps
from .structure.to_graph_normal_form import ToGraphNormalForm as ToGraphNormalForm
from .structure.to_non_dataflow import ToNonDataflow as ToNonDataflow
from .structure.topological_sort import TopologicalSort as TopologicalSort
from .structure.update_param_type import UpdateParamType as UpdateParamType
from .training.append_adjoint import AppendAdjoint as AppendAdjoint
from .training.append_evaluation import AppendEvaluation as AppendEvaluation
from .training.append_loss import AppendLoss as AppendLoss
from .training.append_optimizer import AppendOptimizer as AppendOptimizer
from .training.check_trains import CheckTrains as CheckTrains
from .training.decompose_ops import DecomposeOps as DecomposeOps
from .training.decompose_ops import DecomposeOpsForInference as DecomposeOpsForInference
from .training.decompose_ops import DecomposeOpsForTraining as DecomposeOpsForTraining
from .training.decompose_ops import MutateOpsForTraining as MutateOpsForTraining
from .training.describe_loss import DescribeLoss as DescribeLoss
from .training.fuse_train_step import FuseTrainStep as FuseTrainStep
from .training.loss_channels_last import LossChannelsLast as LossChannelsLast
from .training.plan_step_memory import PlanStepMemory as PlanStepMemory
from .training.prepare_backbone import PrepareBackbone as PrepareBackbone
from .training.setup_trainer import SetupTrainer as SetupTrainer
from .training.shard_training import ShardTraining as ShardTraining
from .training.simplify_adjoint import SimplifyAdjoint as SimplifyAdjoint
from .training.stack_layers import StackLayers as StackLayers
from .training.store_kernels import StoreKernels as StoreKernels
from .training.update_rows import UpdateRows as UpdateRows
from .training.use_training_forms import UseTrainingForms as UseTrainingForms
