/* SPDX-License-Identifier: MIT */
#include "dbus/errors.h"

static const sd_bus_error_map error_map[] = {
	SD_BUS_ERROR_MAP(ERROR_NO_SUCH_SESSION, ENXIO),
	SD_BUS_ERROR_MAP(ERROR_SESSION_EXISTS, EEXIST),
	SD_BUS_ERROR_MAP(ERROR_SESSION_RUNNING, EISCONN),
	SD_BUS_ERROR_MAP(ERROR_NOT_RUNNING, ENOTCONN),
	SD_BUS_ERROR_MAP(ERROR_NOT_CONTINUOUS, EMEDIUMTYPE),
	SD_BUS_ERROR_MAP(ERROR_CONFIG_INVALID, EBADMSG),
	SD_BUS_ERROR_MAP(ERROR_NO_MEMORY, ENOMEM),
	SD_BUS_ERROR_MAP(ERROR_NO_SPACE, ENOSPC),
	SD_BUS_ERROR_MAP(ERROR_LIMIT_EXCEEDED, EDQUOT),
	SD_BUS_ERROR_MAP(ERROR_BUSY, EBUSY),
	SD_BUS_ERROR_MAP(ERROR_NOTHING, ENODATA),
	SD_BUS_ERROR_MAP(ERROR_IO, EIO),
	SD_BUS_ERROR_MAP_END,
};

void errors_register(void)
{
	/* refused (0) when it is there already, which is as good */
	(void)sd_bus_error_add_map(error_map);
}

const char *error_name(FailureKind kind)
{
	switch (kind) {
	case FAILURE_NONE:
		break;
	case FAILURE_INVALID:
		return SD_BUS_ERROR_INVALID_ARGS;
	case FAILURE_NO_SUCH_SESSION:
		return ERROR_NO_SUCH_SESSION;
	case FAILURE_SESSION_EXISTS:
		return ERROR_SESSION_EXISTS;
	case FAILURE_SESSION_RUNNING:
		return ERROR_SESSION_RUNNING;
	case FAILURE_NOT_RUNNING:
		return ERROR_NOT_RUNNING;
	case FAILURE_NOT_CONTINUOUS:
		return ERROR_NOT_CONTINUOUS;
	case FAILURE_CONFIG:
		return ERROR_CONFIG_INVALID;
	case FAILURE_NO_MEMORY:
		return ERROR_NO_MEMORY;
	case FAILURE_NO_SPACE:
		return ERROR_NO_SPACE;
	case FAILURE_LIMIT:
		return ERROR_LIMIT_EXCEEDED;
	case FAILURE_BUSY:
		return ERROR_BUSY;
	case FAILURE_NOTHING:
		return ERROR_NOTHING;
	case FAILURE_IO:
		return ERROR_IO;
	}
	return SD_BUS_ERROR_FAILED;
}

int error_from_failure(sd_bus_error *error, const Failure *failure, int r)
{
	if (failure->kind == FAILURE_NONE)
		return sd_bus_error_set_errnof(error, r < 0 ? r : -EIO,
					       "%s; the log of tracerd may say more (journalctl -u tracer)",
					       strerror(r < 0 ? -r : EIO));
	return sd_bus_error_set(error, error_name(failure->kind),
				failure->text[0] ? failure->text : "no reason was given");
}
