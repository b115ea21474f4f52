# fish completion for synapse; generated, do not edit
function __synapse_complete
    set -l words (commandline -opc)
    set -lx _SYNAPSE_COMPLETE fish
    $words[1] $words[2..-1] (commandline -ct) 2>/dev/null
end
complete -c synapse -f -a '(__synapse_complete)'
