"""What SetupTrainer writes and a Trainer reads: names, arguments, facts, and the storage."""
