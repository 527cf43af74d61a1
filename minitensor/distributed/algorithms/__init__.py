"""What is done around collective calls: joining with uneven inputs, hooks of communication."""
