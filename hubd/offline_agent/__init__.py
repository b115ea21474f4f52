"""The offline agent: a program with the protocol of `claude` that needs no account.

Run it as `python -m hubd.offline_agent`; `--help` lists its directives. It imports little of the
hub, so that it starts quickly.
"""
