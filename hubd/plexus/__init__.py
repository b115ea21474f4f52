"""The tree of activations: who exists, what they can do, how a call runs."""
