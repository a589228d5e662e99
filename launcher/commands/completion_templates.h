// The completion script of each shell, as a template: completion.cpp replaces each @name@ by text made from
// the table of flags and the list of commands.
#pragma once

#include <string_view>

namespace dlaunch::launcher {

// @commands@ and @job_commands@: alternatives of a regular expression. @options@ and @jobs@: shell commands
// that print one word a line. @with_value@: alternatives of a case pattern. @cases@: whole branches of the
// case. @flags@, @underscored_flags@ and @command_words@: one quoted word list each.
inline constexpr std::string_view bash_template =
    R"sh(# bash completion for dlaunch: source <(dlaunch completion bash)
_dlaunch() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} i
  COMPREPLY=()
  # A command's own options are those that its help names.
  if ((COMP_CWORD > 1)) && [[ ${COMP_WORDS[1]} =~ ^(@commands@)$ ]]; then
    if [[ $cur == -* ]]; then
      COMPREPLY=($(compgen -W "$(@options@)" -- "$cur"))
    elif [[ ${COMP_WORDS[1]} =~ ^(@job_commands@)$ ]]; then
      COMPREPLY=($(compgen -W "$(@jobs@)" -- "$cur"))
      [[ $prev == --* ]] && COMPREPLY+=($(compgen -f -- "$cur"))  # perhaps its value
    elif [[ ${COMP_WORDS[1]} == completion ]]; then
      COMPREPLY=($(compgen -W 'bash zsh fish' -- "$cur"))
    else
      COMPREPLY=($(compgen -f -- "$cur"))
    fi
    return
  fi
  # Behind the program everything is the program's.
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
      @with_value@) ((i++)) ;;
      =) ((i++)) ;;
      -*) ;;
      *) COMPREPLY=($(compgen -f -- "$cur")); return ;;
    esac
  done
  [[ $prev == = ]] && prev=${COMP_WORDS[COMP_CWORD-2]}
  [[ $cur == = ]] && cur=
  case $prev in
@cases@    @with_value@) return ;;
  esac
  if [[ $cur == --*_* ]]; then  # torchrun's other spelling
    COMPREPLY=($(compgen -W @underscored_flags@ -- "$cur"))
  elif [[ $cur == -* ]]; then
    COMPREPLY=($(compgen -W @flags@ -- "$cur"))
  else
    COMPREPLY=($(compgen -c -f -- "$cur"))
    ((COMP_CWORD == 1)) && COMPREPLY+=($(compgen -W @command_words@ -- "$cur"))
  fi
}
complete -o filenames -F _dlaunch dlaunch
)sh";

// As above. @command_words@: words separated by blanks. @flag_specs@: whole lines, arguments of _arguments.
inline constexpr std::string_view zsh_template = R"sh(#compdef dlaunch
# zsh completion for dlaunch: source <(dlaunch completion zsh)
_dlaunch_programs() {
  ((CURRENT == 2)) && compadd -- @command_words@
  _command_names -e
  _files
}
_dlaunch() {
  if ((CURRENT > 2)) && [[ $words[2] =~ '^(@commands@)$' ]]; then
    if [[ $PREFIX == -* ]]; then
      compadd -- ${(f)"$(@options@)"}
    elif [[ $words[2] =~ '^(@job_commands@)$' ]]; then
      compadd -- ${(f)"$(@jobs@)"}
      [[ $words[CURRENT-1] == --* ]] && _files  # perhaps its value
    elif [[ $words[2] == completion ]]; then
      compadd bash zsh fish
    else
      _files
    fi
    return
  fi
  _arguments -S -M 'm:_=- r:|[_-]=* r:|=*' \
@flag_specs@    '1:program:_dlaunch_programs' \
    '*::argument:_files'
}
# Installed, this file is the function itself when it is called first.
if [[ $funcstack[1] == _dlaunch ]]; then
  _dlaunch "$@"
else
  compdef _dlaunch dlaunch
fi
)sh";

// As above. @with_value@: case patterns, each after a blank. @complete_commands@ and @complete_flags@: whole
// lines, one `complete` for each command and each flag.
inline constexpr std::string_view fish_template =
    R"sh(# fish completion for dlaunch: dlaunch completion fish | source
function __dlaunch_first
  test (count (commandline -opc)) -eq 1
end
function __dlaunch_no_program
  set -l words (commandline -opc)
  set -l is_value no
  __dlaunch_command '@commands@'; and return 1
  set -e words[1]
  for word in $words
    if test $is_value = yes
      set is_value no
      continue
    end
    switch (string replace -a _ - -- $word)
      case@with_value@
        set is_value yes
      case '-*'
      case '*'
        return 1
    end
  end
  return 0
end
function __dlaunch_at_program
  __dlaunch_no_program; and not string match -q -- '-*' (commandline -ct)
end
function __dlaunch_underscored  # torchrun's other spelling
  __dlaunch_no_program; and string match -q -- '--*_*' (commandline -ct)
end
function __dlaunch_command
  set -l words (commandline -opc)
  test (count $words) -ge 2; and string match -qr "^($argv[1])\$" -- $words[2]
end
function __dlaunch_options
  set -l words (commandline -opc)
  @options@
end
function __dlaunch_jobs
  set -l words (commandline -opc)
  @jobs@
end
complete -c dlaunch -n '__dlaunch_command "@commands@"' -a '(__dlaunch_options)'
complete -c dlaunch -n '__dlaunch_command "@job_commands@"' -f -a '(__dlaunch_jobs)'
complete -c dlaunch -n '__dlaunch_command completion' -f -a 'bash zsh fish'
@complete_commands@complete -c dlaunch -n __dlaunch_at_program -a '(__fish_complete_command)'
complete -c dlaunch -n __dlaunch_underscored -a @underscored_flags@
@complete_flags@)sh";

}  // namespace dlaunch::launcher
