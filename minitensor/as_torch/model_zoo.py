"""`utils.model_zoo`: older names of what `hub` has."""

from minitensor.hub import load_state_dict_from_url as load_url

__all__ = ["load_url"]
