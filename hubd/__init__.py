"""hubd: the local hub. Importing this costs nothing; the daemon is assembled in hubd.app."""

__version__ = "0.1.0"
