# SPDX-License-Identifier: MIT
# bash completion for tracerctl(1)

_tracerctl_bus() {
	local w
	for w in "${COMP_WORDS[@]}"; do
		case $w in
		--user | --address=*) printf '%s\n' "$w" ;;
		esac
	done
}

_tracerctl_sessions() {
	local bus
	mapfile -t bus < <(_tracerctl_bus)
	# columns are two blanks apart
	tracerctl "${bus[@]}" --no-legend list 2>/dev/null | sed 's/  .*//'
}

_tracerctl() {
	local cur=${COMP_WORDS[COMP_CWORD]} verb='' i
	local verbs='list show create start stop snapshot clear remove set-events producers events reload watch view'
	local options='--user --address= --json --no-legend --no-ask-password --help --version'
	local keys='autostart= events= exclude= level= users= processes= units= policy= buffers= memory=
		sub_buffers= contexts= io= on_stop= snapshot.on_crash= snapshot.on_unit_failure=
		snapshot.max_count= snapshot.max_size= snapshot.max_age= snapshot.keep_free=
		snapshot.min_interval= snapshot.duration= snapshot.max_snapshot_size='

	COMPREPLY=()
	for ((i = 1; i < COMP_CWORD; i++)); do
		if [[ ${COMP_WORDS[i]} != -* && ${COMP_WORDS[i - 1]} != '=' && ${COMP_WORDS[i]} != '=' ]]; then
			verb=${COMP_WORDS[i]}
			break
		fi
	done
	if [[ $cur == -* ]]; then
		case $verb in
		snapshot) options+=' --all --reason= --duration= --max-size= --no-wait' ;;
		watch) options+=' --count= --interval=' ;;
		create) options+=' --start' ;;
		esac
		mapfile -t COMPREPLY < <(compgen -W "$options" -- "$cur")
	else
		case $verb in
		'') mapfile -t COMPREPLY < <(compgen -W "$verbs" -- "$cur") ;;
		show | start | stop | snapshot | clear | remove | set-events)
			local IFS=$'\n'
			mapfile -t COMPREPLY < <(compgen -W "$(_tracerctl_sessions)" -- "$cur")
			;;
		create) mapfile -t COMPREPLY < <(compgen -W "$keys" -- "$cur") ;;
		view)
			local IFS=$'\n'
			mapfile -t COMPREPLY < <(compgen -W "$(_tracerctl_sessions)" -- "$cur" && compgen -d -- "$cur")
			;;
		esac
	fi
	[[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace
	return 0
}

complete -F _tracerctl tracerctl
