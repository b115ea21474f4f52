"""What crosses a process boundary. Standard library only; all of hubd that synapse may import."""
