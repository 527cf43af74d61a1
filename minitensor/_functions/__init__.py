"""The functions of the package: what is offered at its top, and how calls enter them."""
