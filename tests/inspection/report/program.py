"""A program whose report has something in every section; it ends as its argument says."""

import os
import sys

import minitensor as mt

w = mt.rand(16, 16)


def step(x):
    y = (x @ w).softmax(dim=1) * 2.5  # compiled
    return (y + 1).log().sum()


for rows in (8, 8, 8, 9, 9, 9):
    total = step(mt.rand(rows, 16)).item()  # the end of what is recorded
positive = w[w > 0.5]  # stays eager
how = sys.argv[1] if len(sys.argv) > 1 else ""
if how == "raise":
    raise ValueError("</script> & <b>wrong</b>")
if how == "exit":
    sys.exit(7)
if how == "vanish":
    os._exit(5)
