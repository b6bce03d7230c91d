# Completes leasehold in bash: asks the program itself, also for the names of locks.
_leasehold() {
    local line=${COMP_LINE:0:COMP_POINT} current=$2 words=() word blank i
    if [[ ${COMP_WORDS[1]} == @(elect|run) ]]; then
        for ((i = 2; i < COMP_CWORD; i++)); do
            [[ ${COMP_WORDS[i]} == -- ]] || continue
            # Behind it is another command, with completions of its own.
            if declare -F _comp_command_offset > /dev/null; then
                _comp_command_offset $((i + 1))
            elif declare -F _command_offset > /dev/null; then
                _command_offset $((i + 1))
            elif ((COMP_CWORD == i + 1)); then
                mapfile -t COMPREPLY < <(compgen -c -- "$current")
            else
                compopt -o default
            fi
            return
        done
    fi
    # bash breaks words at : and =, which are parts of names and of URLs.
    for ((i = 0; i <= COMP_CWORD; i++)); do
        blank=${line%%[![:blank:]]*}
        line=${line:${#blank}}
        word=${COMP_WORDS[i]}
        ((i < COMP_CWORD)) || word=$line
        if [[ -n $blank ]] || ((i == 0)); then words+=("$word"); else words[-1]+=$word; fi
        line=${line:${#word}}
    done
    local typed=${words[-1]}
    for i in "${!words[@]}"; do
        word=${words[i]#[\"\']}
        word=${word%[\"\']}
        word=${word/=[\"\']/=}
        words[i]=${word//\\/}
    done
    # What stands before the last of those breaks stays as it is.
    local before=${typed%"$current"} candidate
    before=${before#[\"\']}
    before=${before//\\/}
    COMPREPLY=()
    while IFS=$'\t' read -r candidate _; do
        candidate=${candidate#"$before"}
        [[ $typed == [\"\']* ]] || printf -v candidate %q "$candidate"
        COMPREPLY+=("$candidate")
    done < <(leasehold @complete "${words[@]:1}" 2> /dev/null)
    if [[ ${COMPREPLY[0]} == *[=/:] ]]; then compopt -o nospace 2> /dev/null; fi
}
complete -F _leasehold leasehold
