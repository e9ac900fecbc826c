/* SPDX-License-Identifier: MIT */
#include "dbus/settings.h"

#include <inttypes.h>
#include <stdio.h>

#include "lib/abi.h"

/* A key cannot be longer than the longest of the table; this only bounds what is copied. */
#define KEY_MAX 128

static void strings_clear(Strings *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->v[i]);
	free(s->v);
	*s = (Strings){ NULL, 0 };
}

static int strings_add(Strings *s, const char *text, size_t length)
{
	char **v = realloc(s->v, (s->n + 1) * sizeof(*v));

	if (!v)
		return -ENOMEM;
	s->v = v;
	v[s->n] = strndup(text, length);
	if (!v[s->n])
		return -ENOMEM;
	s->n++;
	return 0;
}

/* "a, b" -> a, b; "" -> none */
static int strings_split(Strings *s, const char *text)
{
	while (*text) {
		size_t skip = strspn(text, ", "), length;
		int r;

		text += skip;
		length = strcspn(text, ",");
		while (length > 0 && text[length - 1] == ' ')
			length--;
		if (length > 0) {
			r = strings_add(s, text, length);
			if (r < 0)
				return r;
		}
		text += length;
		text += strspn(text, " ");
	}
	return 0;
}

static const char *key_type(const char *key)
{
	const char *dot = strchr(key, '.');
	size_t n, group_length = dot ? (size_t)(dot - key) : strlen("session");
	const char *group = dot ? key : "session", *bare = dot ? dot + 1 : key;
	const ConfigKey *keys = config_keys(&n);

	for (size_t i = 0; i < n; i++)
		if (strlen(keys[i].group) == group_length &&
		    strncmp(keys[i].group, group, group_length) == 0 && strcmp(keys[i].key, bare) == 0)
			return keys[i].type;
	return NULL;
}

static bool boolean_parse(const char *s, bool *ret)
{
	static const char *const yes[] = { "true", "yes", "on", "1" }, *const no[] = { "false", "no", "off",
											"0" };

	for (size_t i = 0; i < ELEMENTSOF(yes); i++)
		if (strcmp(s, yes[i]) == 0)
			return *ret = true, true;
	for (size_t i = 0; i < ELEMENTSOF(no); i++)
		if (strcmp(s, no[i]) == 0)
			return *ret = false, true;
	return false;
}

/* A text for a key of another type becomes that type where it can; where not it stays a text, and the
 * configuration says what is wrong with it. */
static int text_convert(const char *key, ConfigValue *value, Strings *storage)
{
	const char *type = key_type(key);
	char *end;
	int64_t n;
	int r;

	if (!type)
		return 0;
	if (strcmp(type, "list") == 0) {
		r = strings_split(storage, value->string);
		if (r < 0)
			return r;
		value->type = CONFIG_STRINGS;
		value->strings = *storage;
	} else if (strcmp(type, "bool") == 0) {
		if (boolean_parse(value->string, &value->boolean))
			value->type = CONFIG_BOOL;
	} else if (strcmp(type, "count") == 0 || strcmp(type, "level") == 0) {
		errno = 0;
		n = strtoll(value->string, &end, 10);
		if (errno == 0 && end != value->string && *end == 0) {
			value->integer = n;
			value->type = CONFIG_INT;
		}
	}
	return 0;
}

static int integer_read(sd_bus_message *m, char type, int64_t *ret)
{
	union {
		uint8_t y;
		int16_t n;
		uint16_t q;
		int32_t i;
		uint32_t u;
		int64_t x;
		uint64_t t;
	} v;
	int r = sd_bus_message_read_basic(m, type, &v);

	if (r < 0)
		return r;
	switch (type) {
	case 'y':
		*ret = v.y;
		return 0;
	case 'n':
		*ret = v.n;
		return 0;
	case 'q':
		*ret = v.q;
		return 0;
	case 'i':
		*ret = v.i;
		return 0;
	case 'u':
		*ret = v.u;
		return 0;
	case 'x':
		*ret = v.x;
		return 0;
	default:
		if (v.t > INT64_MAX)
			return -ERANGE;
		*ret = (int64_t)v.t;
		return 0;
	}
}

static int list_read(sd_bus_message *m, Strings *ret)
{
	const char *s;
	int r = sd_bus_message_enter_container(m, 'a', "s");

	if (r < 0)
		return r;
	while ((r = sd_bus_message_read_basic(m, 's', &s)) > 0) {
		r = strings_add(ret, s, strlen(s));
		if (r < 0)
			return r;
	}
	return r < 0 ? r : sd_bus_message_exit_container(m);
}

static int entries_read(sd_bus_message *m, SessionConfig *c, const char *prefix, sd_bus_error *error);

/* The variant's content, the variant entered. */
static int content_read(sd_bus_message *m, SessionConfig *c, const char *key, const char *content,
			sd_bus_error *error)
{
	_cleanup_(strings_clear) Strings storage = { NULL, 0 };
	_cleanup_free_ char *text = NULL;
	ConfigValue value = { 0 };
	int flag = 0, r;

	if (strcmp(content, "a{sv}") == 0 && strcmp(key, "snapshot") == 0)
		return entries_read(m, c, "snapshot.", error);
	if (strcmp(content, "b") == 0) {
		r = sd_bus_message_read_basic(m, 'b', &flag);
		value.type = CONFIG_BOOL;
		value.boolean = flag;
	} else if (content[0] && !content[1] && strchr("ynqiuxt", content[0])) {
		value.type = CONFIG_INT;
		r = integer_read(m, content[0], &value.integer);
		if (r == -ERANGE)
			return sd_bus_error_setf(error, SD_BUS_ERROR_INVALID_ARGS,
						 "Setting '%s': the number is out of range", key);
	} else if (strcmp(content, "s") == 0) {
		value.type = CONFIG_STRING;
		r = sd_bus_message_read_basic(m, 's', &value.string);
		if (r >= 0)
			r = text_convert(key, &value, &storage);
	} else if (strcmp(content, "as") == 0) {
		r = list_read(m, &storage);
		value.type = CONFIG_STRINGS;
		value.strings = storage;
	} else {
		return sd_bus_error_setf(error, SD_BUS_ERROR_INVALID_ARGS,
					 "Setting '%s' has D-Bus type '%s'; settings are b, s, as or an integer",
					 key, content);
	}
	if (r < 0)
		return r;
	r = session_config_set(c, key, &value, &text);
	if (r == -EINVAL)
		return sd_bus_error_set(error, SD_BUS_ERROR_INVALID_ARGS, text ? text : key);
	return r;
}

static int entries_read(sd_bus_message *m, SessionConfig *c, const char *prefix, sd_bus_error *error)
{
	const char *name, *content;
	char key[KEY_MAX], type;
	int r = sd_bus_message_enter_container(m, 'a', "{sv}");

	if (r < 0)
		return r;
	while ((r = sd_bus_message_enter_container(m, 'e', "sv")) > 0) {
		r = sd_bus_message_read_basic(m, 's', &name);
		if (r < 0)
			return r;
		/* a name cut here is unknown to the table, and is said to be */
		(void)snprintf(key, sizeof(key), "%s%s", prefix, name);
		r = sd_bus_message_peek_type(m, &type, &content);
		if (r < 0)
			return r;
		r = sd_bus_message_enter_container(m, 'v', content);
		if (r < 0)
			return r;
		r = content_read(m, c, key, content, error);
		if (r < 0)
			return r;
		r = sd_bus_message_exit_container(m);
		if (r < 0)
			return r;
		r = sd_bus_message_exit_container(m);
		if (r < 0)
			return r;
	}
	return r < 0 ? r : sd_bus_message_exit_container(m);
}

int settings_read(sd_bus_message *m, SessionConfig *c, sd_bus_error *error)
{
	_cleanup_free_ char *text = NULL;
	int r = entries_read(m, c, "", error);

	if (r < 0)
		return r;
	r = session_config_check(c, &text);
	if (r == -EINVAL)
		return sd_bus_error_set(error, SD_BUS_ERROR_INVALID_ARGS,
					text ? text : "These settings do not fit together");
	return r;
}

static int append_text(sd_bus_message *m, const char *key, const char *text)
{
	return sd_bus_message_append(m, "{sv}", key, "s", text);
}

static int append_flag(sd_bus_message *m, const char *key, bool flag)
{
	return sd_bus_message_append(m, "{sv}", key, "b", (int)flag);
}

static int append_count(sd_bus_message *m, const char *key, u32 count)
{
	return sd_bus_message_append(m, "{sv}", key, "u", count);
}

static int append_size(sd_bus_message *m, const char *key, u64 size)
{
	char text[32];

	format_size(size, text);
	return append_text(m, key, text);
}

static int append_time(sd_bus_message *m, const char *key, u64 ns)
{
	char text[32];

	format_time(ns, text);
	return append_text(m, key, text);
}

static int append_list(sd_bus_message *m, const char *key, const Strings *list)
{
	int r = sd_bus_message_open_container(m, 'e', "sv");

	if (r >= 0)
		r = sd_bus_message_append_basic(m, 's', key);
	if (r >= 0)
		r = sd_bus_message_open_container(m, 'v', "as");
	if (r >= 0)
		r = sd_bus_message_open_container(m, 'a', "s");
	for (size_t i = 0; r >= 0 && i < list->n; i++)
		r = sd_bus_message_append_basic(m, 's', list->v[i]);
	for (int i = 0; r >= 0 && i < 3; i++)
		r = sd_bus_message_close_container(m);
	return r;
}

static int append_contexts(sd_bus_message *m, u32 contexts)
{
	static char vpid[] = "vpid", vtid[] = "vtid";
	char *v[2];
	Strings list = { v, 0 };

	if (contexts & ABI_CONTEXT_VPID)
		v[list.n++] = vpid;
	if (contexts & ABI_CONTEXT_VTID)
		v[list.n++] = vtid;
	return append_list(m, "contexts", &list);
}

/* Bytes of the file system, or per cent of it. */
static int append_free(sd_bus_message *m, const char *key, const RetentionConfig *c)
{
	char percent[16];

	if (c->keep_free_percent == 0)
		return append_size(m, key, c->keep_free);
	(void)snprintf(percent, sizeof(percent), "%" PRIu32 "%%", c->keep_free_percent);
	return append_text(m, key, percent);
}

static int append_output(sd_bus_message *m, const SessionConfig *c)
{
	int r = append_text(m, "output", c->output ? c->output : "");

	if (r >= 0)
		r = append_time(m, "flush_interval", c->flush_interval_ns);
	if (r >= 0)
		r = append_time(m, "block_timeout", c->block_timeout_ns);
	if (r >= 0)
		r = append_size(m, "file_size", c->file_size);
	if (r >= 0)
		r = append_time(m, "file_interval", c->file_interval_ns);
	if (r >= 0)
		r = append_count(m, "file_count", c->files.max_count);
	if (r >= 0)
		r = append_size(m, "output_size", c->files.max_size);
	if (r >= 0)
		r = append_time(m, "output_age", c->files.max_age_ns);
	if (r >= 0)
		r = append_free(m, "output_keep_free", &c->files);
	return r;
}

static int append_snapshot(sd_bus_message *m, const SnapshotConfig *s)
{
	int r = append_flag(m, "snapshot.on_crash", s->on_crash);

	if (r >= 0)
		r = append_flag(m, "snapshot.on_exit_failure", s->on_exit_failure);
	if (r >= 0)
		r = append_flag(m, "snapshot.on_unknown_death", s->on_unknown_death);
	if (r >= 0)
		r = append_flag(m, "snapshot.on_coredump", s->on_coredump);
	if (r >= 0)
		r = append_list(m, "snapshot.on_unit_failure", &s->on_unit_failure);
	if (r >= 0)
		r = append_list(m, "snapshot.on_event", &s->on_event);
	if (r >= 0)
		r = append_count(m, "snapshot.max_count", s->keep.max_count);
	if (r >= 0)
		r = append_size(m, "snapshot.max_size", s->keep.max_size);
	if (r >= 0)
		r = append_time(m, "snapshot.max_age", s->keep.max_age_ns);
	if (r >= 0)
		r = append_free(m, "snapshot.keep_free", &s->keep);
	if (r >= 0)
		r = append_time(m, "snapshot.min_interval", s->min_interval_ns);
	if (r >= 0)
		r = append_time(m, "snapshot.duration", s->duration_ns);
	if (r >= 0)
		r = append_size(m, "snapshot.max_snapshot_size", s->max_snapshot_size);
	return r;
}

int settings_append(sd_bus_message *m, const SessionConfig *c)
{
	int r = sd_bus_message_open_container(m, 'a', "{sv}");

	if (r >= 0)
		r = append_flag(m, "autostart", c->autostart);
	if (r >= 0)
		r = append_list(m, "events", &c->events);
	if (r >= 0)
		r = append_list(m, "exclude", &c->exclude);
	if (r >= 0)
		r = append_count(m, "level", (u32)c->level);
	if (r >= 0)
		r = append_list(m, "users", &c->users);
	if (r >= 0)
		r = append_list(m, "processes", &c->processes);
	if (r >= 0)
		r = append_list(m, "units", &c->units);
	if (r >= 0)
		r = append_text(m, "policy", policy_name(c->policy));
	if (r >= 0)
		r = append_text(m, "buffers", buffers_name(c->buffers));
	if (r >= 0)
		r = append_size(m, "memory", c->memory);
	if (r >= 0)
		r = append_count(m, "sub_buffers", c->sub_buffers);
	if (r >= 0)
		r = append_list(m, "pinned", &c->pinned);
	if (r >= 0)
		r = append_size(m, "pinned_memory", c->pinned_memory);
	if (r >= 0)
		r = append_contexts(m, c->contexts);
	if (r >= 0)
		r = append_text(m, "io", io_name(c->io));
	if (r >= 0)
		r = append_output(m, c);
	if (r >= 0)
		r = append_text(m, "backing", c->backing ? c->backing : "");
	if (r >= 0)
		r = append_time(m, "sync_interval", c->sync_interval_ns);
	if (r >= 0)
		r = append_text(m, "on_stop", on_stop_name(c->on_stop));
	if (r >= 0)
		r = append_snapshot(m, &c->snapshot);
	return r < 0 ? r : sd_bus_message_close_container(m);
}
