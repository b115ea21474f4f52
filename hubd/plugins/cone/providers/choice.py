"""Which provider a model belongs to: `anthropic/…`, `openai/…`, or by its name alone."""

from collections.abc import Mapping
from typing import Final

from hubd.plugins.cone.providers import anthropic, offline, openai
from hubd.plugins.cone.providers.anthropic import Anthropic
from hubd.plugins.cone.providers.offline import Offline
from hubd.plugins.cone.providers.openai import OpenAI
from hubd.plugins.cone.providers.provider import Provider, Settings

NAMES: Final = (offline.NAME, anthropic.NAME, openai.NAME)


def split(model_id: str) -> tuple[str, str]:
    """The provider, and what it calls the model.

    A name without a provider is Anthropic's if it begins with `claude`, else it is for the server
    that speaks OpenAI's protocol, whose models may be called anything.
    """
    before, slash, after = model_id.partition("/")
    if slash and after and before in NAMES:
        return before, after
    if model_id == offline.NAME:
        return offline.NAME, model_id
    return (anthropic.NAME if model_id.startswith("claude") else openai.NAME), model_id


def reach(name: str, settings: Settings, env: Mapping[str, str]) -> Provider:
    """The provider of that name, as it can be reached from an environment."""
    if name == offline.NAME:
        return Offline()
    return Anthropic(settings, env) if name == anthropic.NAME else OpenAI(settings, env)
