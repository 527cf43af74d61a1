"""Reading and writing elements chosen by indices and masks."""
