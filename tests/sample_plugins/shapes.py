"""shapes: methods with every shape of parameters and events, as a third party writes them."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from hubd.activation import Activation, Event, Handle, Option, columns, method, resolver

# A name, a text or an output that tries to become part of a page.
HOSTILE = '<img src=x onerror="window.broken=1"><script>window.broken=1</script>\u202etxt.exe'
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADU"
    "lEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


class PictureRef(Handle, method="picture", kind="binary", summary="{name}"):
    """A picture."""

    id: str


class Picture(Event, kind="binary", summary="{name}"):
    ref: PictureRef
    name: str
    mime_type: str
    base64: str


class Circle(BaseModel):
    """A round shape."""

    shape: Literal["circle"]
    radius: float = Field(gt=0)


class Square(BaseModel):
    """A shape with four equal sides."""

    shape: Literal["square"]
    side: int = Field(ge=1, le=100)
    labels: list[str] = []


class Address(BaseModel):
    street: str
    number: int | None = None
    inner: "Address | None" = None


class Received(Event):
    """The parameters as the method got them."""

    params: dict[str, object]


class Row(BaseModel):
    name: str
    size: int
    created_at: int
    ref: PictureRef


class Rows(Event):
    rows: list[Row] = Field(
        json_schema_extra=columns(name="{name}", size="{size}", age="{created_at}")
    )


class Tick(Event, summary="tick {number}"):
    number: int
    text: str


class Said(Event, summary="{text}"):
    text: str


class Shapes(Activation, namespace="shapes", version="1.0.0"):
    """Shapes of parameters and events."""

    @method
    async def draw(
        self,
        name: str,
        size: Annotated[int, Field(ge=1, le=10)] = 3,
        colour: Literal["red", "green", "blue"] = "red",
        tags: list[str] | None = None,
        address: Address | None = None,
        form: Annotated[Circle | Square, Field(discriminator="shape")] | None = None,
        weights: dict[str, float] | None = None,
        is_filled: bool | None = None,
        is_visible: bool = True,
    ) -> Received:
        """Return the parameters.

        Args:
            name: Name of the drawing.
            size: Size in centimetres.
            colour: Colour of the line.
            tags: Words for the drawing.
            address: Where the drawing hangs.
            form: Form to draw.
            weights: Weights by material.
            is_filled: Whether the form is filled.
            is_visible: Whether the drawing is shown.
        """
        params: dict[str, object] = {"name": name, "size": size, "colour": colour}
        params |= {"tags": tags, "weights": weights, "is_filled": is_filled}
        params |= {"is_visible": is_visible}
        params["address"] = None if address is None else address.model_dump()
        params["form"] = None if form is None else form.model_dump()
        return Received(params=params)

    @method(read_only=True, render="table")
    async def table(self, rows: int = 3) -> Rows:
        """List drawings.

        Args:
            rows: Number of rows.
        """
        return Rows(
            rows=[
                Row(
                    name=f"drawing {n}",
                    size=n * 1024,
                    created_at=1_700_000_000,
                    ref=self._ref(str(n)),
                )
                for n in range(rows)
            ]
        )

    @method
    async def tick(self, text: str = "") -> AsyncIterator[Tick]:
        """Send events until the call is cancelled.

        Args:
            text: Text of each event.
        """
        number = 0
        while True:
            number += 1
            await self.host.progress(f"tick {number}", min(99.0, number * 10.0))
            yield Tick(number=number, text=text)
            await asyncio.sleep(0.05)

    @method(bidirectional=True)
    async def ask(self, wait: float = 30.0) -> AsyncIterator[Said]:
        """Ask one question of each kind.

        Args:
            wait: Seconds until the first two questions are withdrawn.
        """
        sure = await self.host.confirm("Sure?", default=False, timeout_seconds=wait)
        yield Said(text=f"sure: {sure}")
        name = await self.host.prompt("Name?", placeholder="yours", timeout_seconds=wait)
        yield Said(text=f"name: {name}")
        options = [Option("r", "Red", description="like fire"), Option("g", "Green")]
        colours = await self.host.select("Colours?", options, multi=True)
        yield Said(text=f"colours: {', '.join(colours)}")
        data = await self.host.custom({"any": "thing"})
        yield Said(text=f"data: {data}")

    @method(destructive=True, completes={"name": "shapes.table"})
    async def erase(self, name: str) -> Said:
        """Erase a drawing.

        Args:
            name: Name of the drawing.
        """
        return Said(text=f"erased {name}")

    @method(read_only=True)
    async def hostile(self, text: str = HOSTILE) -> AsyncIterator[Said]:
        """Return <b>texts</b> that try to become part of a page.

        Args:
            text: A text, such as `<img src=x onerror=alert(1)>`.
        """
        yield Said(text=text)
        yield Said(text=f"\x1b[31m{text}")

    def _ref(self, name: str) -> PictureRef:
        return PictureRef(id=name)

    @resolver
    async def picture(self, ref: PictureRef) -> Picture:
        """Read a picture."""
        if ref.id == "0":
            return Picture(ref=ref, name=HOSTILE, mime_type="text/html", base64="PGgxPmhpPC9oMT4=")
        return Picture(ref=ref, name="dot.png", mime_type="image/png", base64=PIXEL)
