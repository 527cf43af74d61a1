"""What processes send each other: collective calls, messages from one to another, and Python objects."""
