"""Child processes that end with the daemon. Plugins start them with `self.host.process`."""
