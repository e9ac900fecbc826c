/* SPDX-License-Identifier: MIT */
#include "dbus/reply.h"

#include <errno.h>
#include <stdarg.h>

#define TRIES 3

int reply_send(sd_bus_message *reply)
{
	int r = -EIO;

	/* sd-bus queues what the socket does not take, but not what the kernel has no memory for; of such a message nothing was
	 * sent, and it may be given again */
	for (int i = 0; i < TRIES; i++) {
		r = sd_bus_send(NULL, reply, NULL);
		if (r >= 0)
			return 1;
		if (r != -ENOBUFS && r != -ENOMEM && r != -EINTR)
			break;
	}
	return r;
}

int reply_to(sd_bus_message *m, const char *types, ...)
{
	__attribute__((cleanup(sd_bus_message_unrefp))) sd_bus_message *reply = NULL;
	int r = sd_bus_message_new_method_return(m, &reply);
	va_list ap;

	if (r >= 0 && types) {
		va_start(ap, types);
		r = sd_bus_message_appendv(reply, types, ap);
		va_end(ap);
	}
	return r < 0 ? r : reply_send(reply);
}
