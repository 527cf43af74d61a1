"""Whole functions as programs: how they are recorded, their stages, what sessions and optimizers run again."""
