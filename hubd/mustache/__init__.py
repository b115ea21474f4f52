"""The bounded Mustache engine: templates to text."""
