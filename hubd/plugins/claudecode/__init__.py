"""claudecode: run the `claude` program, and record each chat as a stream and a tree."""
