"""The daemon as a process: composition root, control from outside, lock, log, watchdogs."""
