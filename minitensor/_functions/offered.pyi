"""The functions of the package, as its own stub types them."""

from minitensor import *
