"""cone: the method that lists providers and models."""

from __future__ import annotations

import asyncio
from typing import Final

from hubd.activation import HubError, method
from hubd.plugins.cone import events
from hubd.plugins.cone.base import ConeBase
from hubd.plugins.cone.providers import choice
from hubd.plugins.cone.providers import provider as model_provider

# A provider that needs more time is listed without its models.
LIST_SECONDS: Final = 5.0


class Registry(ConeBase):
    """The method `registry`."""

    @method(read_only=True, needs_context=True, render="table")
    async def registry(self) -> events.Registry:
        """List the providers of language models, and the models of those that are available."""
        providers = [
            choice.create_provider(name, self.configured, self.environment) for name in choice.NAMES
        ]
        return events.Registry(
            default_model=self.configured.model,
            providers=list(await asyncio.gather(*map(_info, providers))),
        )


async def _info(provider: model_provider.Provider) -> events.ProviderInfo:
    obstacle = provider.obstacle()
    models: list[str] = []
    note = None
    if obstacle is not None:
        note = f"{obstacle.message}. {obstacle.suggestion}"
    else:
        try:
            async with asyncio.timeout(LIST_SECONDS):
                models = [_model_id(provider.name, model) for model in await provider.models()]
        except TimeoutError:
            note = f"did not list its models within {LIST_SECONDS:g} s"
        except HubError as error:
            note = error.message
    return events.ProviderInfo(
        provider=provider.name, available=obstacle is None, models=models, note=note
    )


def _model_id(name: str, model: str) -> str:
    return model if model == name else f"{name}/{model_provider.well_formed(model)}"
