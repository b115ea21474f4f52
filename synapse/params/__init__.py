"""The tokens of a method become JSON, by the JSON Schema of its params."""
