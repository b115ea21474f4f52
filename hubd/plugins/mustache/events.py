"""mustache: the events of the methods."""

from pydantic import BaseModel, Field

from hubd.activation import Event
from hubd.plugins.mustache.handles import TemplateRef


class Rendered(Event):
    """The output of a template."""

    text: str


class TemplateRegistered(Event, summary="registered template {name}"):
    """A registered template."""

    name: str
    variables: list[str] = Field(description="The names that data can define")
    replaced: bool = Field(description="Whether it replaced another template")
    handle_type: str | None = Field(description="The handles that it shows, as PLUGIN::METHOD")
    style: str | None = Field(description="The style in which it shows them")
    handle: TemplateRef


class TemplateData(Event, tag="template", summary="{name} {description}"):
    """One template. Times are in seconds."""

    name: str
    template: str
    description: str
    variables: list[str] = Field(description="The names that data can define")
    required: list[str] = Field(description="The variables outside of all sections")
    sections: list[str] = Field(description="The variables that decide whether a section is shown")
    partials: list[str] = Field(description="The names of its partials")
    created_at: int
    updated_at: int
    handle: TemplateRef


class TemplateEntry(BaseModel, defer_build=True):
    """A template in a list."""

    name: str
    description: str
    variables: list[str]
    handle_types: list[str] = Field(description="The handles that it shows: PLUGIN::METHOD STYLE")
    updated_at: int


class TemplateList(Event):
    """A page of templates, sorted by name."""

    templates: list[TemplateEntry]


class TemplateDeleted(Event, summary="deleted template {name}"):
    """A deleted template."""

    name: str
