"""The report of a run: one HTML file with everything that is known of it."""
