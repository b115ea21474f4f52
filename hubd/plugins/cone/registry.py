"""cone: which language models can answer."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from hubd.activation import HubError, method
from hubd.plugins.cone import events
from hubd.plugins.cone.base import ConeBase
from hubd.plugins.cone.handles import VERSION
from hubd.plugins.cone.providers.choice import NAMES, reach
from hubd.plugins.cone.providers.provider import Provider, well_formed

# A provider that needs longer to list its models is listed without them.
LIST_SECONDS: Final = 5.0


class Models(ConeBase, version=VERSION):
    """Methods about models."""

    @method(streaming=False, read_only=True, needs_context=True, render="table")
    async def registry(self) -> AsyncIterator[events.Registry]:
        """List the providers of language models, and the models of those that can be asked."""
        known = [reach(name, self.configured, self.environment) for name in NAMES]
        yield events.Registry(
            default_model=self.configured.model,
            providers=list(await asyncio.gather(*map(_listed, known))),
        )


async def _listed(known: Provider) -> events.ProviderInfo:
    obstacle = known.obstacle()
    models: list[str] = []
    note = None
    if obstacle is not None:
        note = f"{obstacle.message}. {obstacle.suggestion}"
    else:
        try:
            async with asyncio.timeout(LIST_SECONDS):
                models = [_model_id(known.name, model) for model in await known.models()]
        except TimeoutError:
            note = f"it has not listed its models within {LIST_SECONDS:g} s"
        except HubError as error:
            note = error.message
    return events.ProviderInfo(
        provider=known.name, available=obstacle is None, models=models, note=note
    )


def _model_id(name: str, model: str) -> str:
    return model if model == name else f"{name}/{well_formed(model)}"
