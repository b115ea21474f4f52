"""An agent's end in a sentence."""

import pytest

from hubd.plugins.claudecode.program.exit_reason import explain


@pytest.mark.parametrize(
    ("status", "stderr", "sentence"),
    [
        (0, "", "the agent has ended"),
        (1, "", "the agent ended with status 1"),
        (1, "a\n\nError: bad thing\n", "the agent ended with status 1: bad thing"),
        (
            1,
            "Error: Invalid session ID. Must be a valid UUID.\n[claude-code:note] {}\n",
            "the agent ended with status 1: Invalid session ID. Must be a valid UUID.",
        ),
        (143, "", "the agent was ended by SIGTERM"),
        (-15, "", "the agent was killed by SIGTERM"),
        (-6, "boom", "the agent was killed by SIGABRT: boom"),
        (-9, "", "the agent was killed (SIGKILL), perhaps because memory ran out"),
        (-99, "", "the agent ended with status -99"),
        (255, "", "the agent ended with status 255"),
        (
            127,
            "setpriv: failed to execute claude: No such file",
            "the agent's program could not be run: setpriv: failed to execute claude: No such file",
        ),
        (
            1,
            "No conversation found with session ID: 1923d140-595b-4dba-884c-5037aa1915bc\n",
            "the agent does not have the session to resume",
        ),
        (
            1,
            "Error: Session ID c7126bb3-00ac-473d-92a4-1dd81acf5555 is already in use.\n",
            "the agent already has a session with this id",
        ),
        (
            1,
            "--dangerously-skip-permissions cannot be used with root/sudo privileges for security",
            "the agent refuses to bypass permissions for root",
        ),
    ],
)
def test_an_exit_is_explained_in_one_sentence(status: int, stderr: str, sentence: str) -> None:
    assert explain(status, stderr) == sentence
