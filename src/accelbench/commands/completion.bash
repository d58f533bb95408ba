# accelbench's words in bash: printed by `accelbench completion bash`.
_accelbench() {
    local line=${COMP_LINE:0:COMP_POINT}
    local word=${line##*[[:space:]]} name before last choices=
    COMPREPLY=()
    if [[ $word == *=* ]]; then
        name=${word%%=*} before=${word#*=}
        last=${before##*,}
        before=${before%"$last"}  # the items of a list before the last
        case $name in
@VALUES@
        esac
        COMPREPLY=($(compgen -P "$before" -W "$choices" -- "$last"))
        # Where = is a word break, Bash completes only what follows it.
        [[ $COMP_WORDBREAKS == *=* ]] || COMPREPLY=("${COMPREPLY[@]/#/$name=}")
        compopt -o nospace  # a comma may follow
        return
    fi
    if ((COMP_CWORD == 1)); then
        choices="@COMMANDS@"
    fi
    case ${COMP_WORDS[1]} in
@FLAGS@
    esac
    COMPREPLY=($(compgen -W "$choices" -- "$word"))
    [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace
}
complete -o default -F _accelbench accelbench
