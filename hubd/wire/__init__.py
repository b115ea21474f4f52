"""Everything that crosses a process boundary. Uses only the standard library.

synapse imports nothing else of hubd.
"""
