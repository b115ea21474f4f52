"""The provider of a model id: `anthropic/…`, `openai/…`, or a name without a provider."""

from collections.abc import Mapping
from typing import Final

from hubd.plugins.cone.providers import anthropic, offline, openai
from hubd.plugins.cone.providers.anthropic import Anthropic
from hubd.plugins.cone.providers.offline import Offline
from hubd.plugins.cone.providers.openai import OpenAI
from hubd.plugins.cone.providers.provider import Provider
from hubd.plugins.cone.settings import Settings

NAMES: Final = (offline.NAME, anthropic.NAME, openai.NAME)


def split_model_id(model_id: str) -> tuple[str, str]:
    """Return the name of the provider, and the provider's name for the model.

    A name without a provider is Anthropic's if it starts with `claude`, else OpenAI's, because
    servers with OpenAI's protocol may give their models any name.
    """
    before, slash, after = model_id.partition("/")
    if slash and after and before in NAMES:
        return before, after
    if model_id == offline.NAME:
        return offline.NAME, model_id
    return (anthropic.NAME if model_id.startswith("claude") else openai.NAME), model_id


def create_provider(name: str, settings: Settings, env: Mapping[str, str]) -> Provider:
    """Return the provider with this name, with the keys and addresses of an environment."""
    if name == offline.NAME:
        return Offline()
    return Anthropic(settings, env) if name == anthropic.NAME else OpenAI(settings, env)
