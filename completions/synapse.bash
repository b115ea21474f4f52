# bash completion for synapse; generated, do not edit
_synapse() {
    local IFS=$'\n' line
    local -a words=("${COMP_WORDS[@]:1:COMP_CWORD}")
    COMPREPLY=()
    while IFS= read -r line; do
        COMPREPLY+=("$(printf '%q' "${line%%$'\t'*}")")
    done < <(_SYNAPSE_LINE="$COMP_LINE" _SYNAPSE_COMPLETE=bash "${COMP_WORDS[0]}" "${words[@]}" 2>/dev/null)
}
complete -o default -o nosort -F _synapse synapse 2>/dev/null ||
    complete -o default -F _synapse synapse  # an older bash sorts
