"""What a person sees of a training."""
