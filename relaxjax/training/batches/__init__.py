"""What a training reads: batches, the data that they come from, targets and ids."""
