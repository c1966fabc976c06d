"""What XLA is told where a program is to be compiled quickly, and runs once."""

QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
