"""Matrix products of more forms."""
