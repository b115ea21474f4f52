"""Approvals: the questions of agents whether a tool may run, as rows and as events of chats.

loopback decides who may answer and asks them. This folder keeps the record.
"""

from hubd.activation.lazy_module import lazy_modules

lazy_modules(__name__, "actors", "inline", "limits", "remedy")
