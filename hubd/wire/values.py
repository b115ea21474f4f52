"""The values a listing method offers for a parameter, found in the events it yields."""


def listed_values(name: str, content: object) -> list[str]:
    """The values in one event: the field of that name, in itself or in the lists it holds."""
    if isinstance(content, str):
        return [content]
    if not isinstance(content, dict):
        return []
    for field in (name, "name", "id"):
        if isinstance(content.get(field), str):
            return [content[field]]
    lists = [value for value in content.values() if isinstance(value, list)]
    return [value for entry in lists for part in entry for value in listed_values(name, part)]
