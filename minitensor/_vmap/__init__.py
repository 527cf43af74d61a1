"""vmap: a function of one example becomes a function of many."""

from minitensor._vmap.transform import vmap

__all__ = ["vmap"]
