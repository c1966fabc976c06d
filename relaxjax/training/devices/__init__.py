"""The devices and processes of a training: what they can do, and what they tell each other."""
