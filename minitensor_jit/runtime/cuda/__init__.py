"""What drives the cards: memory, streams, modules and launches, through PyCUDA. Imported by the first use of a card."""
