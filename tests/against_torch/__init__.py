"""Every op against PyTorch's own: PyTorch's sample inputs for each of its ops, run in both and compared.

`python -m tests.against_torch` needs torch and what torch.testing needs (expecttest). See `--help`.
"""
