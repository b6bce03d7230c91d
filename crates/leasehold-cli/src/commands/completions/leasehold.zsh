#compdef leasehold
# Completes leasehold in zsh: asks the program itself, also for the names of locks.
_leasehold() {
    local -i dashes=${words[(i)--]}
    if [[ $words[2] == (elect|run) ]] && (( dashes < CURRENT )); then
        # Behind it is another command, with completions of its own.
        shift $dashes words
        (( CURRENT -= dashes ))
        _normal
        return
    fi
    local -a found
    local line
    for line in "${(@f)$(leasehold @complete "${(@Q)words[2,CURRENT]}" 2> /dev/null)}"; do
        [[ -n $line ]] && found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
    done
    _describe leasehold found
}
if [[ $funcstack[1] == _leasehold ]]; then _leasehold "$@"; else compdef _leasehold leasehold; fi
