"""Looks at the numbers of launches: checks them, prints them, and holds them against the ops run one by one."""
