"""The agent as a child process: which program, its command line, its environment, its end."""
