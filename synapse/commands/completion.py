"""The completion scripts of the shells, and their places.

`python -m synapse.commands.completion` writes them to `completions/`. A test fails if the files
there differ.
"""

from __future__ import annotations

import os
import sys

from synapse.complete import LINE_VARIABLE, VARIABLE
from synapse.errors import CommandError, UsageError

BASH = """\
# bash completion for synapse; generated, do not edit
_synapse() {
    local IFS=$'\\n' line
    local -a words=("${COMP_WORDS[@]:1:COMP_CWORD}")
    COMPREPLY=()
    while IFS= read -r line; do
        COMPREPLY+=("$(printf '%q' "${line%%$'\\t'*}")")
    done < <(@LINE@="$COMP_LINE" @VARIABLE@=bash "${COMP_WORDS[0]}" "${words[@]}" 2>/dev/null)
}
complete -o default -o nosort -F _synapse synapse 2>/dev/null ||
    complete -o default -F _synapse synapse  # an older bash sorts
"""

ZSH = """\
#compdef synapse
# zsh completion for synapse; generated, do not edit
_synapse() {
    local line name text
    local -a described
    while IFS= read -r line; do
        name=${line%%$'\\t'*}
        text=${line#*$'\\t'}
        described+=("${name//:/\\\\:}:$text")
    done < <(@VARIABLE@=zsh "${words[1]}" "${(@)words[2,$CURRENT]}" 2>/dev/null)
    if (( $#described )); then
        _describe 'synapse' described
    else
        _files
    fi
}
if [[ $funcstack[1] == _synapse ]]; then
    _synapse "$@"
else
    compdef _synapse synapse
fi
"""

FISH = """\
# fish completion for synapse; generated, do not edit
function __synapse_complete
    set -l words (commandline -opc)
    set -lx @VARIABLE@ fish
    $words[1] $words[2..-1] (commandline -ct) 2>/dev/null
end
complete -c synapse -f -a '(__synapse_complete)'
"""

SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}
# The names of the files in `completions/`.
FILES = {"bash": "synapse.bash", "zsh": "_synapse", "fish": "synapse.fish"}


def script(shell: str) -> str:
    """Return the script of a shell.

    Raises:
        UsageError: The shell is unknown.
    """
    if shell not in SCRIPTS:
        raise UsageError(f"no completion for {shell!r}; there is: {', '.join(SCRIPTS)}")
    return SCRIPTS[shell].replace("@VARIABLE@", VARIABLE).replace("@LINE@", LINE_VARIABLE)


def install(shell: str = "") -> str:
    """Write the script to the place where the shell finds it, and return a sentence about it.

    Raises:
        CommandError: The directory cannot be written.
        UsageError: The shell is unknown.
    """
    shell = shell or os.path.basename(os.environ.get("SHELL", ""))
    text = script(shell)
    data = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    path = {
        "bash": os.path.join(data, "bash-completion", "completions", "synapse"),
        "zsh": os.path.join(data, "zsh", "site-functions", "_synapse"),
        "fish": os.path.join(config, "fish", "completions", "synapse.fish"),
    }[shell]
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}") from None
    if shell == "zsh":
        return f"wrote {path}; add its directory to fpath before compinit"
    return f"wrote {path}; open a new shell to use it"


def write_all(directory: str) -> None:
    """Write every script into a directory."""
    os.makedirs(directory, exist_ok=True)
    for shell, name in FILES.items():
        with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
            file.write(script(shell))


if __name__ == "__main__":
    write_all(sys.argv[1] if len(sys.argv) > 1 else "completions")
