"""The values of a parameter in the events of the method that lists them."""


def listed_values(name: str, content: object) -> list[str]:
    """Return the values in one event: its field with this name, or those of its list entries."""
    if isinstance(content, str):
        return [content]
    if not isinstance(content, dict):
        return []
    for field in (name, "name", "id"):
        if isinstance(content.get(field), str):
            return [content[field]]
    lists = [value for value in content.values() if isinstance(value, list)]
    return [value for entry in lists for part in entry for value in listed_values(name, part)]
