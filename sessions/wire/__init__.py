"""The Tinker API's bytes, as tinker 0.38.0 sends and reads them: protobuf for tensors, JSON for all else."""
