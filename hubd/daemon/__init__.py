"""The daemon's process: composition root, control from outside, lock, log, watchdogs."""
