"""Programs and builtins that need care when a shell command is compared with rules."""

from typing import Final


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


RESERVED_WORDS: Final = _words(
    """
    if then else elif fi case esac for foreach select while until do done in function time coproc
    repeat end nocorrect noglob { } [[ ]] !
    """
)

# Programs and builtins that run another command, which their arguments or their input name.
RUNNERS: Final = _words(
    """
    . arch ash at atd bash batch builtin busybox caffeinate catchsegv chronic chroot chrt command
    compgen complete csh daemonize dash dbus-run-session direnv doas eatmydata emulate entr env
    eval exec expect fakeroot faketime fc firejail fish flock gdb genv gnice gtimeout gxargs
    hyperfine ifne ionice jobs ksh logsave ltrace mksh nice nohup nsenter numactl parallel perf
    pkexec prlimit proot rbash rlwrap run0 runuser sched screen script sem setarch setpriv setsid
    sg sh source start-stop-daemon stdbuf strace su sudo sudoedit systemd-run taskset tcsh time
    timeout tini tmux toybox trap unbuffer unshare valgrind watch watchexec xargs xvfb-run zargs
    zsh
    """
)

# Builtins that change how the shell finds or runs later commands, or that evaluate subscripts.
STATE_CHANGERS: Final = _words(
    """
    alias autoload bind bindkey compopt declare disable enable export float functions getopts
    hash integer let local mapfile print read readarray readonly rehash set setopt shopt typeset
    umask unalias unset unsetopt vared zcompile zle zmodload zparseopts zstyle
    """
)

# Options that make a program run another command, or a builtin set a variable.
RUNNING_OPTIONS: Final = {
    "find": ("-exec", "-ok", "-fprint", "-fls"),
    "fd": ("-x", "-X", "--exec"),
    "fdfind": ("-x", "-X", "--exec"),
    "printf": ("-v",),
    "test": ("-v", "-R"),
    "[": ("-v", "-R"),
    "wait": ("-p",),
}

# Builtins after which the session's directory is not the directory of the command.
DIRECTORY_CHANGERS: Final = frozenset(["cd", "chdir", "popd", "pushd"])

# Programs without subcommands: an option after the name is not an option before a subcommand.
PLAIN_PROGRAMS: Final = _words(
    """
    autopep8 awk basename black bzip2 c++ cat cc cd chgrp chmod chown clang clang++ cmp cp ctest
    curl cut date dd df diff dirname du echo egrep eslint expr false fd fgrep file find flake8
    g++ gawk gcc grep gunzip gzip head hexdump hostname id isort java javac jest jq kill less ln
    ls make md5sum mkdir mocha more mv mypy ninja node nox od patch perl pgrep ping prettier
    printenv printf ps psql pwd py.test pylint pyright pytest python python3 readlink realpath rg
    rm rmdir rsync ruby rustc scp sed seq sha1sum sha256sum shellcheck shfmt sleep sort sqlite3
    ssh stat tail tar tee test touch tox tr tree true tsc tsx uname uniq unzip wc wget which
    whoami xxd xz yes zcat zip
    """
)


def base_name(word: str) -> str:
    """Return the name of a program without its directory."""
    return word.rpartition("/")[2]


def indirection(words: tuple[str, ...]) -> str | None:
    """Return the reason why a simple command does more than its words show; None if it doesn't."""
    name = base_name(words[0])
    if words[0] in RESERVED_WORDS:
        return f"`{words[0]}` is shell syntax for more than a simple command"
    if name in RUNNERS:
        return f"`{name}` runs another command"
    if name in STATE_CHANGERS:
        return f"`{name}` changes the shell for the commands after it"
    for option in RUNNING_OPTIONS.get(name, ()):
        if any(word.startswith(option) for word in words[1:]):
            return f"`{name} {option}` does more than its name says"
    return None
