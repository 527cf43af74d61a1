"""Code for the host CPU: explicit vectors, loops over the thread pool, and the shared matrix product."""
