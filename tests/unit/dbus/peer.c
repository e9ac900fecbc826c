/* SPDX-License-Identifier: MIT */
#include "tests/unit/dbus/peer.h"

#include <stdarg.h>
#include <sys/socket.h>

Peer *peer_new_with(sd_event *event, Manager *m)
{
	Peer *p = g_new0(Peer, 1);
	sd_id128_t id;
	int fds[2];

	p->event = event;
	g_assert_cmpint(sd_id128_randomize(&id), >=, 0);
	g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), >=, 0);
	g_assert_cmpint(sd_bus_new(&p->server), >=, 0);
	g_assert_cmpint(sd_bus_set_fd(p->server, fds[0], fds[0]), >=, 0);
	g_assert_cmpint(sd_bus_set_server(p->server, true, id), >=, 0);
	g_assert_cmpint(sd_bus_new(&p->client), >=, 0);
	g_assert_cmpint(sd_bus_set_fd(p->client, fds[1], fds[1]), >=, 0);
	p->manager = m;
	g_assert_cmpint(sd_bus_start(p->server), >=, 0);
	g_assert_cmpint(bus_new_peer(&p->service, p->event, p->manager, p->server), >=, 0);
	g_assert_cmpint(sd_bus_start(p->client), >=, 0);
	g_assert_cmpint(sd_bus_attach_event(p->client, p->event, 0), >=, 0);
	return p;
}

void peer_free(Peer *p)
{
	p->service = bus_free(p->service);
	p->manager = manager_free(p->manager);
	sd_bus_detach_event(p->client);
	sd_bus_close_unref(p->client);
	sd_bus_close_unref(p->server);
	sd_event_unref(p->event);
	g_free(p);
}

void peer_settle(Peer *p)
{
	int r;

	while ((r = sd_event_run(p->event, 0)) > 0)
		;
	g_assert_cmpint(r, ==, 0);
}

static int on_reply(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	*(sd_bus_message **)userdata = sd_bus_message_ref(m);
	return 1;
}

sd_bus_message *peer_send(Peer *p, sd_bus_message *call, sd_bus_error *ret_error)
{
	sd_bus_message *reply = NULL;

	g_assert_cmpint(sd_bus_call_async(p->client, NULL, call, on_reply, &reply, 20 * 1000000), >=, 0);
	while (!reply)
		g_assert_cmpint(sd_event_run(p->event, UINT64_MAX), >=, 0);
	if (sd_bus_message_is_method_error(reply, NULL)) {
		g_assert_cmpint(sd_bus_error_copy(ret_error, sd_bus_message_get_error(reply)), <, 0);
		sd_bus_message_unref(reply);
		return NULL;
	}
	return reply;
}

static sd_bus_message *call_new(Peer *p, const char *path, const char *interface, const char *member,
				const char *types, va_list ap)
{
	sd_bus_message *call = NULL;

	g_assert_cmpint(sd_bus_message_new_method_call(p->client, &call, NULL, path, interface, member), >=, 0);
	if (types)
		g_assert_cmpint(sd_bus_message_appendv(call, types, ap), >=, 0);
	return call;
}

sd_bus_message *peer_call(Peer *p, const char *path, const char *interface, const char *member,
			  const char *types, ...)
{
	sd_bus_error error = SD_BUS_ERROR_NULL;
	sd_bus_message *call, *reply;
	va_list ap;

	va_start(ap, types);
	call = call_new(p, path, interface, member, types, ap);
	va_end(ap);
	reply = peer_send(p, call, &error);
	sd_bus_message_unref(call);
	if (!reply)
		g_error("%s failed: %s: %s", member, error.name, error.message);
	return reply;
}

void peer_call_fails(Peer *p, const char *path, const char *interface, const char *member, const char *name,
		     const char *part, const char *types, ...)
{
	sd_bus_error error = SD_BUS_ERROR_NULL;
	sd_bus_message *call, *reply;
	va_list ap;

	va_start(ap, types);
	call = call_new(p, path, interface, member, types, ap);
	va_end(ap);
	reply = peer_send(p, call, &error);
	sd_bus_message_unref(call);
	g_assert_null(reply);
	g_assert_cmpstr(error.name, ==, name);
	if (part && !strstr(error.message, part))
		g_error("'%s' does not say '%s'", error.message, part);
	sd_bus_error_free(&error);
}
