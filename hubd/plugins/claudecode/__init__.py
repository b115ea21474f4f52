"""claudecode: drives the `claude` program and keeps all that it says."""
