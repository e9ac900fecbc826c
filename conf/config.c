/* SPDX-License-Identifier: MIT */
#include "conf/config.h"

#include "conf/session.h"
#include "conf/field.h"
#include "conf/setting.h"

int daemon_config_init(DaemonConfig *ret)
{
	DaemonConfig d = { .origins = calloc(n_keys, sizeof(*d.origins)) };
	int r = d.origins ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < n_keys; i++)
		if (keys[i].group == GROUP_DAEMON)
			r = setting_default(&keys[i], &d);
	if (r < 0) {
		daemon_config_deinit(&d);
		return r;
	}
	*ret = d;
	return 0;
}

void daemon_config_deinit(DaemonConfig *d)
{
	for (size_t i = 0; i < n_keys; i++)
		if (keys[i].group == GROUP_DAEMON)
			field_clear(&keys[i], d);
	(void)origins_free(d->origins);
	*d = (DaemonConfig){ 0 };
}

int daemon_config_copy(const DaemonConfig *from, DaemonConfig *ret)
{
	DaemonConfig d = { 0 };
	int r = origins_copy(from->origins, &d.origins);

	for (size_t i = 0; r == 0 && i < n_keys; i++)
		if (keys[i].group == GROUP_DAEMON)
			r = field_copy(&keys[i], from, &d);
	if (r < 0) {
		daemon_config_deinit(&d);
		return r;
	}
	*ret = d;
	return 0;
}

bool daemon_config_equal(const DaemonConfig *a, const DaemonConfig *b)
{
	for (size_t i = 0; i < n_keys; i++)
		if (keys[i].group == GROUP_DAEMON && !field_equal(&keys[i], a, b))
			return false;
	return true;
}

int config_new(Config **ret)
{
	_cleanup_(config_freep) Config *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return -ENOMEM;
	r = daemon_config_init(&c->daemon);
	if (r < 0)
		return r;
	*ret = steal_ptr(c);
	return 0;
}

int config_copy(const Config *from, Config **ret)
{
	_cleanup_(config_freep) Config *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return -ENOMEM;
	r = daemon_config_copy(&from->daemon, &c->daemon);
	if (r < 0)
		return r;
	for (size_t i = 0; i < from->n_sessions; i++) {
		_cleanup_(session_config_freep) SessionConfig *s =
			session_config_copy(from->sessions[i]);

		if (!s)
			return -ENOMEM;
		r = config_put(c, s);
		if (r < 0)
			return r;
		s = NULL; /* c has it */
	}
	*ret = steal_ptr(c);
	return 0;
}

Config *config_free(Config *c)
{
	if (!c)
		return NULL;
	for (size_t i = 0; i < c->n_sessions; i++)
		(void)session_config_free(c->sessions[i]);
	free(c->sessions);
	daemon_config_deinit(&c->daemon);
	free(c);
	return NULL;
}

/* The first index whose name is not less. */
static size_t place(const Config *c, const char *name)
{
	size_t low = 0, high = c->n_sessions;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (strcmp(c->sessions[middle]->name, name) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

const SessionConfig *config_find(const Config *c, const char *name)
{
	size_t i = place(c, name);

	return i < c->n_sessions && strcmp(c->sessions[i]->name, name) == 0 ? c->sessions[i] : NULL;
}

int config_put(Config *c, SessionConfig *s)
{
	size_t i = place(c, s->name);
	SessionConfig **v;

	if (i < c->n_sessions && strcmp(c->sessions[i]->name, s->name) == 0) {
		(void)session_config_free(c->sessions[i]);
		c->sessions[i] = s;
		return 0;
	}
	v = realloc(c->sessions, (c->n_sessions + 1) * sizeof(SessionConfig *));
	if (!v)
		return -ENOMEM;
	c->sessions = v;
	memmove(v + i + 1, v + i, (c->n_sessions - i) * sizeof(*v));
	v[i] = s;
	c->n_sessions++;
	return 0;
}

void config_remove(Config *c, size_t i)
{
	(void)session_config_free(c->sessions[i]);
	c->n_sessions--;
	memmove(c->sessions + i, c->sessions + i + 1,
		(c->n_sessions - i) * sizeof(*c->sessions));
}
