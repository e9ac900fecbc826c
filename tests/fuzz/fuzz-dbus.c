/* SPDX-License-Identifier: MIT */
/* Any bytes as calls to the manager's objects: every method and property of the introspection file, with values of its signature or
 * of another, at objects that are there and that are not, answered by the real handlers in front of the real manager. No
 * crash, no leak; every call is answered, every refusal has a name of ours (or the bus's) and a sentence; and afterwards the
 * service tells of the same sessions as the manager.
 * With -fsanitize=fuzzer a libFuzzer target; without, main() of place.c replays. */
#include "conf/keys.h"
#include "dbus/bus.h"
#include "tests/fuzz/place.h"

#include <stdio.h>
#include <sys/socket.h>

#define CALLS_MAX 24
#define DEPTH_MAX 5
#define ITEMS_MAX 6
#define TEXT_MAX  300

typedef struct {
	char *interface, *member, *signature; /* signature NULL: a property */
} Member;

static Place place;
static Bus *service;
static sd_bus *server, *client;
static Member *members;
static size_t n_members;

/* ---- what there is ---- */

static char *attribute(const char *tag, const char *name)
{
	char wanted[40];
	const char *p, *end = strchr(tag, '>');

	(void)snprintf(wanted, sizeof(wanted), " %s=\"", name);
	p = strstr(tag, wanted);
	if (!p || !end || p > end)
		return NULL;
	p += strlen(wanted);
	return strndup(p, strcspn(p, "\""));
}

static void member_add(const char *interface, char *member, const char *signature)
{
	members = reallocarray(members, n_members + 1, sizeof(*members));
	must(members && interface && member, "no members");
	members[n_members++] =
		(Member){ strdup(interface), member, signature ? strdup(signature) : NULL };
}

/* One tag after the other: the file is ours, and xmllint looks at it elsewhere. */
static void members_read(const char *path)
{
	static const char *const others[][3] = {
		{ "org.freedesktop.DBus.Properties", "GetAll", "s" },
		{ "org.freedesktop.DBus.ObjectManager", "GetManagedObjects", "" },
		{ "org.freedesktop.DBus.Introspectable", "Introspect", "" },
		{ "org.freedesktop.DBus.Peer", "Ping", "" },
		{ "org.freedesktop.LogControl1", "LogLevel", NULL },
		{ "org.freedesktop.LogControl1", "LogTarget", NULL },
	};
	_cleanup_free_ char *interface = NULL, *method = NULL;
	static char text[1 << 16];
	char signature[64] = "";
	FILE *f = fopen(path, "re");
	size_t n;

	must(f != NULL, path);
	n = fread(text, 1, sizeof(text) - 1, f);
	must(fclose(f) == 0 && n < sizeof(text) - 1, path);
	for (const char *p = text; (p = strchr(p, '<')); p++) {
		if (strncmp(p, "<interface ", 11) == 0) {
			free(interface);
			interface = attribute(p, "name");
		} else if (strncmp(p, "<method ", 8) == 0) {
			free(method);
			method = attribute(p, "name");
			*signature = 0;
			if (strchr(p, '>')[-1] == '/')
				member_add(interface, steal_ptr(method), signature);
		} else if (strncmp(p, "<arg ", 5) == 0 && method) {
			_cleanup_free_ char *direction = attribute(p, "direction"), *type = attribute(p, "type");

			if (direction && type && strcmp(direction, "in") == 0)
				(void)strncat(signature, type, sizeof(signature) - strlen(signature) - 1);
		} else if (strncmp(p, "</method>", 9) == 0 && method) {
			member_add(interface, steal_ptr(method), signature);
		} else if (strncmp(p, "<property ", 10) == 0) {
			member_add(interface, attribute(p, "name"), NULL);
		}
	}
	must(n_members > 40, "the introspection file has few members");
	for (size_t i = 0; i < ELEMENTSOF(others); i++)
		member_add(others[i][0], strdup(others[i][1]), others[i][2]);
}

/* ---- values ---- */

static const char *text_of(Bytes *b, char buffer[TEXT_MAX + 1])
{
	static const char *const words[] = {
		"", "flight", "other", "a", "wait", "duration", "max_size", "16M", "1M", "10s", "0", "1", "-1", "100%",
		"99999999999999999999", "overwrite", "discard", "block", "none", "auto", "write", "mmap", "splice", "direct",
		"per-user", "per-process", "per-unit", "snapshot", "stop", "shop:*", "*", "shop:order_placed:info", "true",
		"false", "vpid", "vtid", "%s%n", "../..", "/", ".", "nginx.service", BUS_MANAGER_INTERFACE,
		BUS_SESSION_INTERFACE, "org.freedesktop.LogControl1", "State", "Settings", "Lost", "out", "state/there",
	};
	char path[64];
	u8 choice = bytes_u8(b);
	Bytes piece;

	if (choice < 96)
		return words[choice % ELEMENTSOF(words)];
	if (choice < 192) /* any key, under the name that the bus knows it by */
		return strcpy(buffer, key_path(&keys[bytes_u8(b) % n_keys], path));
	piece = bytes_piece(b, TEXT_MAX);
	memcpy(buffer, piece.p, piece.n);
	buffer[piece.n] = 0;
	return buffer;
}

static bool append(sd_bus_message *m, const char *signature, Bytes *b, unsigned depth);

static bool append_basic(sd_bus_message *m, char type, Bytes *b)
{
	char buffer[TEXT_MAX + 1];
	union {
		u64 t;
		int b;
	} v = { 0 };
	const void *p = &v;
	u8 choice;

	switch (type) {
	case 's':
	case 'o':
	case 'g':
		p = text_of(b, buffer);
		/* what is no text, path or signature never leaves a client: another in its place */
		return sd_bus_message_append_basic(m, type, p) >= 0 ||
		       sd_bus_message_append_basic(m, type, type == 'o' ? "/" : "") >= 0;
	case 'b':
		v.b = bytes_u8(b) & 1;
		break;
	case 'h':
		return false;
	default:
		choice = bytes_u8(b);
		v.t = choice < 0xE0 ? choice : bytes_u64(b);
	}
	return sd_bus_message_append_basic(m, type, p) >= 0;
}

/* Length of the first complete type; 0: it is none. */
static size_t type_length(const char *s)
{
	size_t n = 0;
	int open = 0;

	do {
		while (s[n] == 'a')
			n++;
		if (!s[n])
			return 0;
		open += s[n] == '(' || s[n] == '{';
		open -= s[n] == ')' || s[n] == '}';
		n++;
	} while (open > 0);
	return open == 0 ? n : 0;
}

static bool append_container(sd_bus_message *m, char kind, const char *inner, Bytes *b, u32 items, unsigned depth)
{
	if (depth > DEPTH_MAX || sd_bus_message_open_container(m, kind, inner) < 0)
		return false;
	for (u32 i = 0; i < items; i++)
		if (!append(m, inner, b, depth + 1))
			return false;
	return sd_bus_message_close_container(m) >= 0;
}

static bool append_one(sd_bus_message *m, const char *type, Bytes *b, unsigned depth)
{
	static const char *const variants[] = { "s", "as", "b", "u", "t", "x", "i", "d", "a{sv}", "v", "y", "o", "(ss)",
						"aas", "q", "n", "ay", "g", "a{ss}", "av" };
	size_t n = strlen(type);
	_cleanup_free_ char *inner = n > 1 ? strdup(type + 1) : NULL;

	switch (*type) {
	case 'a':
		return append_container(m, 'a', inner, b, bytes_u8(b) % ITEMS_MAX, depth);
	case '(':
	case '{':
		must(inner != NULL, "no memory");
		inner[n - 2] = 0;
		return append_container(m, *type == '(' ? 'r' : 'e', inner, b, 1, depth);
	case 'v':
		return append_container(m, 'v', variants[bytes_u8(b) % ELEMENTSOF(variants)], b, 1, depth);
	default:
		return append_basic(m, *type, b);
	}
}

static bool append(sd_bus_message *m, const char *signature, Bytes *b, unsigned depth)
{
	while (*signature) {
		size_t n = type_length(signature);
		_cleanup_free_ char *type = n ? strndup(signature, n) : NULL;

		if (!type || !append_one(m, type, b, depth))
			return false;
		signature += n;
	}
	return true;
}

/* ---- calls ---- */

typedef struct {
	bool done;
} Answer;

static int on_answer(sd_bus_message *m, void *userdata, sd_bus_error *unused)
{
	static const char *const names[] = { BUS_NAME ".Error.", "org.freedesktop.DBus.Error.", "System.Error." };
	const sd_bus_error *e = sd_bus_message_get_error(m);
	bool known = false;

	((Answer *)userdata)->done = true;
	if (!e)
		return 1;
	for (size_t i = 0; i < ELEMENTSOF(names); i++)
		known |= strncmp(e->name, names[i], strlen(names[i])) == 0;
	must(known, e->name);
	must(e->message && *e->message, "refused without a word");
	must(strcmp(e->name, SD_BUS_ERROR_NO_REPLY) != 0 && strcmp(e->name, SD_BUS_ERROR_TIMEOUT) != 0,
	     "a call that is never answered");
	return 1;
}

static const char *path_of(const Member *m, Bytes *b, char buffer[TEXT_MAX * 4])
{
	char text[TEXT_MAX + 1];
	_cleanup_free_ char *encoded = NULL;
	u8 choice = bytes_u8(b);

	if (choice < 0xD0)
		return strstr(m->interface, "LogControl") ? "/org/freedesktop/LogControl1" :
		       strcmp(m->interface, BUS_SESSION_INTERFACE) == 0 ? BUS_SESSION_PREFIX "/flight" :
		       choice & 1 && !strstr(m->interface, BUS_NAME) ? BUS_SESSION_PREFIX "/flight" : BUS_PATH;
	if (choice < 0xE0)
		return choice & 1 ? BUS_PATH : "/";
	if (choice < 0xF8 && sd_bus_path_encode(BUS_SESSION_PREFIX, text_of(b, text), &encoded) >= 0)
		return strcpy(buffer, encoded);
	return text_of(b, strcpy(buffer, ""));
}

/* False: no message could be made of it. */
static bool call(Bytes *b)
{
	static const char *const others[] = { "", "s", "a{sv}", "ssa{sv}", "t", "as", "(ss)", "sa{sv}s", "ss", "v" };
	const Member *m = &members[bytes_u8(b) % n_members];
	char path[TEXT_MAX * 4], own[TEXT_MAX + 1];
	sd_bus_message *message = NULL;
	const char *signature = m->signature, *at = path_of(m, b, path);
	Answer answer = { false };
	u8 how = bytes_u8(b);
	bool good;

	if (m->signature)
		good = sd_bus_message_new_method_call(client, &message, NULL, at, m->interface, m->member) >= 0;
	else
		good = sd_bus_message_new_method_call(client, &message, NULL, at, "org.freedesktop.DBus.Properties",
						      how & 1 ? "Get" : "Set") >= 0 &&
		       sd_bus_message_append(message, "ss", m->interface, m->member) >= 0;
	if (!m->signature)
		signature = how & 1 ? "" : "v";
	if (how >= 0xF0) /* of its own making */
		signature = text_of(b, own);
	else if (how >= 0xE0)
		signature = others[bytes_u8(b) % ELEMENTSOF(others)];
	good = good && append(message, signature, b, 0);
	if (good && how & 2 && how & 4 && how & 8) {
		good = sd_bus_message_set_expect_reply(message, false) >= 0 && sd_bus_send(client, message, NULL) >= 0;
	} else if (good) {
		good = sd_bus_call_async(client, NULL, message, on_answer, &answer, 30 * 1000000) >= 0;
		if (good)
			place_until(&place, &answer.done, "a call that is never answered");
	}
	(void)sd_bus_message_unref(message);
	return good;
}

/* ---- afterwards ---- */

typedef struct {
	bool done;
	u32 n;
} Listed;

static int on_listed(sd_bus_message *m, void *userdata, sd_bus_error *unused)
{
	Listed *l = userdata;

	l->done = true;
	must(!sd_bus_message_is_method_error(m, NULL) && sd_bus_message_enter_container(m, 'a', "(sso)") >= 0,
	     "the sessions are not listed");
	while (sd_bus_message_skip(m, "(sso)") > 0)
		l->n++;
	return 1;
}

static void check(void)
{
	Listed l = { 0 };

	must(sd_bus_call_method_async(client, NULL, NULL, BUS_PATH, BUS_MANAGER_INTERFACE, "ListSessions", on_listed, &l,
				      NULL) >= 0,
	     "no call can be made");
	place_until(&place, &l.done, "the service does not answer any more");
	must(l.n == manager_n_sessions(place.manager), "the bus and the manager have not the same sessions");
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	sd_id128_t id = { 0 };
	int fds[2];

	members_read(TRACER_XML);
	place_open(&place);
	must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) == 0 && sd_bus_new(&server) >= 0 &&
		     sd_bus_set_fd(server, fds[0], fds[0]) >= 0 && sd_bus_set_server(server, true, id) >= 0 &&
		     sd_bus_new(&client) >= 0 && sd_bus_set_fd(client, fds[1], fds[1]) >= 0 &&
		     sd_bus_start(server) >= 0 && bus_new_peer(&service, place.event, place.manager, server) >= 0 &&
		     sd_bus_start(client) >= 0 && sd_bus_attach_event(client, place.event, 0) >= 0,
	     "no bus");
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	Bytes b = { data, n };

	place_tidy(&place, n > 0 && data[0] & 1);
	for (int i = 0; i < CALLS_MAX && b.n > 0; i++)
		(void)call(&b);
	place_settle(&place);
	check();
	return 0;
}

#ifndef TRACER_FUZZ_ENGINE
int main(int argc, char **argv)
{
	int r = replay_main(argc, argv);

	service = bus_free(service);
	sd_bus_detach_event(client);
	sd_bus_close_unref(client);
	sd_bus_close_unref(server);
	place_close(&place);
	for (size_t i = 0; i < n_members; i++) {
		free(members[i].interface);
		free(members[i].member);
		free(members[i].signature);
	}
	free(members);
	return r;
}
#endif
