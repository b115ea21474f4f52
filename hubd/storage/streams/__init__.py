"""Durable event streams, the positions of their readers, and the end of a stream."""
