#compdef tracerctl
# SPDX-License-Identifier: MIT
# zsh completion for tracerctl(1)

_tracerctl_sessions() {
	local -a names bus
	bus=(${(M)words:#--(user|address=*)})
	names=(${${(f)"$(_call_program sessions tracerctl $bus --no-legend list 2>/dev/null)"}%%  *})
	_describe -t sessions session names
}

_tracerctl_verbs() {
	local -a verbs=(
		'list:all sessions'
		'show:everything about a session'
		'create:make a session'
		'set:change settings of a session'
		'start:begin to record'
		'stop:end recording'
		'snapshot:save what the rings hold'
		'rotate:end the present trace, begin another'
		'clear:empty the rings'
		'remove:remove a session'
		'set-events:record other events from now on'
		'producers:programs that are attached'
		'events:kinds of events'
		'reload:read the configuration again'
		'watch:rates, fill and losses'
		'view:show a trace with babeltrace2'
		'extract:make a trace of a range of time of another'
		'recover:make a trace of what a machine that died left'
	)
	_describe -t verbs verb verbs
}

_tracerctl_arguments() {
	case $words[1] in
	show|start|stop|snapshot|rotate|clear|remove|set-events) _tracerctl_sessions ;;
	view) _alternative 'sessions:session:_tracerctl_sessions' 'directories:directory:_directories' ;;
	set) (( CURRENT == 2 )) && _tracerctl_sessions || _message 'KEY=VALUE' ;;
	extract|recover) _directories ;;
	create) _message 'KEY=VALUE' ;;
	esac
}

_arguments \
	'--user[the tracerd of this user]' \
	'--address=[bus address]:address' \
	'--json=-[as JSON]::mode:(pretty short off)' \
	'--no-legend[without titles and totals]' \
	'--no-ask-password[do not ask for one]' \
	'--start[create\: and start it]' \
	'--all[snapshot\: every session that runs]' \
	'--unit=[snapshot\: sessions that recorded it]:unit' \
	'--reason=[snapshot\: why]:text' \
	'--duration=[snapshot\: only the newest]:time' \
	'--max-size=[snapshot\: only the newest]:size' \
	'--no-wait[snapshot, stop\: do not wait]' \
	{-n,--count=}'[watch\: so many times]:number' \
	'--interval=[watch\: seconds]:seconds' \
	'--from=[extract\: events from then on]:time' \
	'--to=[extract\: up to then]:time' \
	'(- *)'{-h,--help}'[help]' \
	'(- *)--version[version]' \
	'1:verb:_tracerctl_verbs' \
	'*::argument:_tracerctl_arguments'
