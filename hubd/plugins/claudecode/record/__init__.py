"""What a chat leaves behind: nodes, events, live blocks, and the context read back from them."""
