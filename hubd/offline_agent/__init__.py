"""The offline agent: a program that talks like `claude` and needs no account.

Run it as `python -m hubd.offline_agent`; `--help` says what it can be told. It uses
the standard library only and nothing of the hub, so that it starts in a moment.
"""
