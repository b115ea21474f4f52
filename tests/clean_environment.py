"""The environment of the tests: a few named variables of the machine, and nothing else.

`conftest.py` calls `clean` before anything else is imported, so that a variable of the developer's
shell or of a build machine can neither hide a failure nor cause one.
"""

import os
import re
from typing import Final
from uuid import uuid4

# Variables that every child process gets. PYTEST_ carries the state of pytest and its workers.
BASIC: Final = re.compile(
    r"PATH|HOME|USER|LOGNAME|LANG|LC_[A-Z]+|TZ|TMPDIR|TERM|XDG_CACHE_HOME|LD_LIBRARY_PATH|PYTEST_\w+"
    r"|TEST_EVENT_LOOP"
)
# Variables that pip and npm need to download packages. Only those two programs get them.
INSTALLATION: Final = re.compile(
    r"PIP_\w+|SSL_CERT_(FILE|DIR)|REQUESTS_CA_BUNDLE|NODE_EXTRA_CA_CERTS|npm_config_\w+"
    r"|(https?|all|no)_proxy",
    re.IGNORECASE,
)
# Marks the children of one pytest process, so that they can be found when it is gone.
RUN_VARIABLE: Final = "TEST_RUN"
RUN: Final = uuid4().hex


def clean() -> None:
    """Remove all other variables from this process, and mark its children."""
    for name in list(os.environ):
        if not (BASIC.fullmatch(name) or INSTALLATION.fullmatch(name)):
            del os.environ[name]
    os.environ[RUN_VARIABLE] = RUN
    # The servers of the tests are on this machine, never behind a proxy.
    direct = os.environ.get("no_proxy") or os.environ.get("NO_PROXY")
    os.environ["no_proxy"] = os.environ["NO_PROXY"] = (
        f"{direct},127.0.0.1" if direct else "127.0.0.1"
    )


def basic_variables() -> dict[str, str]:
    """Return the variables for a child process that installs nothing."""
    inherited = {name: text for name, text in os.environ.items() if BASIC.fullmatch(name)}
    # uvloop is installed for its own tests. Users usually have asyncio's loop.
    loop = os.environ.get("TEST_EVENT_LOOP", "asyncio")
    return {**inherited, RUN_VARIABLE: RUN, "HUBD_EVENT_LOOP": loop}


def installation_variables() -> dict[str, str]:
    """Return the variables for pip or npm."""
    needed = {name: text for name, text in os.environ.items() if INSTALLATION.fullmatch(name)}
    return {**basic_variables(), **needed}
