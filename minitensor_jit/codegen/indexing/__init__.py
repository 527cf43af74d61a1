"""Which element lies where: symbolic indices, those of data movement, iteration spaces, sizes that are symbols."""
