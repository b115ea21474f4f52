"""mustache: the handle of a template, and what the methods yield."""

from pydantic import BaseModel, Field

from hubd.activation import Event, Handle


class TemplateRef(
    Handle, method="register_template", kind="document", summary="{name} {description}"
):
    """Points at a template; what it points at may be replaced."""

    name: str = Field(description="What it is called")


class Rendered(Event):
    """A template, filled."""

    text: str


class TemplateRegistered(Event):
    """A template is kept, and can be filled by its name."""

    name: str
    variables: list[str] = Field(description="What can be filled in")
    replaced: bool = Field(description="Whether another one had the name before")
    handle: TemplateRef


class TemplateData(Event, tag="template"):
    """One template. Times are in seconds."""

    name: str
    template: str
    description: str
    variables: list[str] = Field(description="What can be filled in")
    required: list[str] = Field(description="Those that are shown whatever else is given")
    sections: list[str] = Field(description="Those that decide what is shown, and how often")
    partials: list[str] = Field(description="The templates that it refers to")
    created_at: int
    updated_at: int
    handle: TemplateRef


class TemplateEntry(BaseModel, defer_build=True):
    """A template in a list."""

    name: str
    description: str
    variables: list[str]
    updated_at: int


class TemplateList(Event):
    """Some templates, in the order of their names."""

    templates: list[TemplateEntry]


class TemplateDeleted(Event):
    """A template is gone."""

    name: str
