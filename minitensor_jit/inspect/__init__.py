"""Looking at what the compiler did: the account of every op, and dumps of every stage."""
