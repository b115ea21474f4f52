"""The plugins that ship with the hub, each written as a third party would write it."""
