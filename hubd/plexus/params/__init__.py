"""Params of a call: validated as parsed values, with bounded reports of problems."""
