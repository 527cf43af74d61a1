"""What ran: the core's events, and the step statistics made of them."""
