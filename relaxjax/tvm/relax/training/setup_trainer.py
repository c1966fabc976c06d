"""SetupTrainer, where TVM has it."""

from relaxjax.passes import SetupTrainer as SetupTrainer
