"""`torch._dynamo.config`: settings of another compiler. They can be set, and change nothing."""
