# SPDX-License-Identifier: MIT
# bash completion for tracerctl(1)

# bash breaks words at '=' and ':' as well, so what is looked at is the line
_tracerctl_bus() {
	local w words
	IFS=$' \t' read -ra words <<< "${COMP_LINE:0:COMP_POINT}"
	for w in "${words[@]}"; do
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
	local cur=${COMP_WORDS[COMP_CWORD]} verb='' last='' w words
	local values=''
	local verbs='list show create set start stop snapshot rotate clear remove set-events producers events reload watch view extract recover'
	local options='--user --address= --json --no-legend --no-ask-password --help --version'
	local keys='autostart= events= exclude= level= users= processes= units= policy= buffers= memory=
		sub_buffers= pinned= pinned_memory= contexts= io= output= backing= sync_interval= flush_interval= block_timeout= file_size= file_interval=
		file_count= output_size= output_age= output_keep_free= on_stop= snapshot.on_crash= snapshot.on_exit_failure=
		snapshot.on_unknown_death= snapshot.on_coredump= snapshot.on_unit_failure= snapshot.on_event=
		snapshot.max_count= snapshot.max_size= snapshot.max_age= snapshot.keep_free=
		snapshot.min_interval= snapshot.duration= snapshot.max_snapshot_size='

	COMPREPLY=()
	IFS=$' \t' read -ra words <<< "${COMP_LINE:0:COMP_POINT}"
	if [[ ${COMP_LINE:0:COMP_POINT} != *[[:space:]] ]]; then
		last=${words[-1]}
		unset 'words[-1]'
	fi
	for w in "${words[@]:1}"; do
		if [[ $w != -* ]]; then
			verb=$w
			break
		fi
	done
	if [[ ( $verb == create || $verb == set ) && $last == *=* ]]; then
		case ${last%%=*} in
		autostart | snapshot.on_crash | snapshot.on_exit_failure | snapshot.on_unknown_death | snapshot.on_coredump) values='true false' ;;
		buffers) values='per-user per-unit per-process' ;;
		policy) values='overwrite discard block' ;;
		io) values='none auto write mmap splice direct' ;;
		on_stop) values='keep snapshot' ;;
		level) values='emerg alert crit err warning notice info debug' ;;
		esac
		mapfile -t COMPREPLY < <(compgen -W "$values" -- "${cur#=}")
	elif [[ $cur == -* ]]; then
		case $verb in
		snapshot) options+=' --all --unit= --reason= --duration= --max-size= --no-wait' ;;
		stop) options+=' --no-wait' ;;
		watch) options+=' --count= --interval=' ;;
		create) options+=' --start' ;;
		extract) options+=' --from= --to=' ;;
		esac
		mapfile -t COMPREPLY < <(compgen -W "$options" -- "$cur")
	else
		case $verb in
		'') mapfile -t COMPREPLY < <(compgen -W "$verbs" -- "$cur") ;;
		show | start | stop | snapshot | rotate | clear | remove | set-events)
			local IFS=$'\n'
			mapfile -t COMPREPLY < <(compgen -W "$(_tracerctl_sessions)" -- "$cur")
			;;
		set)
			if [[ ${words[-1]} == set ]]; then
				local IFS=$'\n'
				mapfile -t COMPREPLY < <(compgen -W "$(_tracerctl_sessions)" -- "$cur")
			else
				mapfile -t COMPREPLY < <(compgen -W "$keys" -- "$cur")
			fi
			;;
		create) mapfile -t COMPREPLY < <(compgen -W "$keys" -- "$cur") ;;
		extract | recover) mapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
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
