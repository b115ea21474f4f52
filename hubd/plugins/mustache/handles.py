"""mustache: the handle of a template."""

from pydantic import Field

from hubd.activation import Handle


class TemplateRef(
    Handle, method="register_template", kind="document", summary="{name} {description}"
):
    """The handle of a template. It resolves to the current version."""

    name: str = Field(description="The name of the template")
