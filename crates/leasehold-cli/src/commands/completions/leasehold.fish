# Completes leasehold in fish: asks the program itself, also for the names of locks.
function __leasehold_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l dashes (contains -i -- -- $words)
    if set -q dashes[1]; and contains -- "$words[2]" elect run
        # Behind it is another command, with completions of its own.
        set -l behind (math $dashes + 1)
        set -l line
        if test $behind -le (count $words)
            set line (string escape -- $words[$behind..-1])
        end
        complete -C "$(string join ' ' -- $line $current)"
        return
    end
    leasehold @complete $words[2..-1] $current 2>/dev/null
end
complete -c leasehold -f -a '(__leasehold_complete)'
