"""Processes of the launcher; see `minitensor.distributed.launcher`."""
