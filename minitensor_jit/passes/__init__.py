"""HLO to HLO passes, one file each; `pipeline.py` is their order."""
