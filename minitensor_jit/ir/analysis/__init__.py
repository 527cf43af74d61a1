"""What is found out about modules: costs, equality, fingerprints, loops for any number of elements."""
