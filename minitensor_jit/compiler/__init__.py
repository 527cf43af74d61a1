"""From a recorded trace to a launch plan: clusters, lowers, runs the passes, generates code, builds the plan."""
