/* SPDX-License-Identifier: MIT */
#include "systemd/unit-failures.h"

#include <stdio.h>

#define MAX_NOTES 4096 /* more units than any machine has; beyond it the oldest is forgotten */

struct Note {
	Note *next;
	char *unit;
	char *result;
	bool now; /* in the list that is being read */
	uint32_t main_pid;
	uint32_t n_restarts;
	bool failed; /* is in the state now, and was reported */
};

static Note *note_free(Note *n)
{
	if (n) {
		free(n->unit);
		free(n->result);
		free(n);
	}
	return NULL;
}

static Note *note_find(UnitFailures *f, const char *unit, bool create)
{
	Note **p, *n;

	for (n = f->first; n; n = n->next)
		if (strcmp(n->unit, unit) == 0)
			return n;
	if (!create)
		return NULL;

	if (f->n >= MAX_NOTES) {
		for (p = &f->first; (*p)->next; p = &(*p)->next)
			;
		*p = note_free(*p);
		f->n--;
	}
	n = calloc(1, sizeof(*n));
	if (!n)
		return NULL;
	n->unit = strdup(unit);
	if (!n->unit)
		return note_free(n);
	n->next = f->first;
	f->first = n;
	f->n++;
	return n;
}

static void note_drop(UnitFailures *f, const char *unit)
{
	for (Note **p = &f->first; *p; p = &(*p)->next)
		if (strcmp((*p)->unit, unit) == 0) {
			Note *n = *p;

			*p = n->next;
			f->n--;
			note_free(n);
			return;
		}
}

static void note_result(Note *n, const char *result)
{
	char *copy = strdup(result);

	if (copy) {
		free(n->result);
		n->result = copy;
	}
}

static void report(UnitFailures *f, const Note *n)
{
	_cleanup_free_ char *unit = strdup(n->unit);
	_cleanup_free_ char *result = strdup(n->result ?: "failed");

	/* copies: the callback may take so long a way that it ends in here again */
	if (unit && result)
		f->failed(f->userdata, unit, result, (pid_t)n->main_pid);
}

void unit_failures_clear(UnitFailures *f)
{
	for (Note *n = f->first, *next; n; n = next) {
		next = n->next;
		note_free(n);
	}
	*f = (UnitFailures){ 0 };
}

/* ---- signals ---- */

void unit_failures_type(UnitFailures *f, const char *unit, const UnitChange *c)
{
	bool bad = c->result && strcmp(c->result, "success") != 0;
	Note *n = note_find(f, unit, bad || (c->has_restarts && c->n_restarts > 0));

	if (!n)
		return;
	if (bad)
		note_result(n, c->result);
	if (c->main_pid)
		n->main_pid = c->main_pid;
	if (c->has_restarts && c->n_restarts != n->n_restarts) {
		bool up = c->n_restarts == n->n_restarts + 1;
		bool seen = n->failed;

		n->n_restarts = c->n_restarts;
		n->failed = false;
		/* Restart=always counts clean exits too: only with a bad Result it was a failure. */
		if (up && !seen && n->result) {
			report(f, n);
			n = note_find(f, unit, false);
		}
	}
	if (n && c->result && !bad) {
		free(n->result);
		n->result = NULL;
	}
}

void unit_failures_state(UnitFailures *f, const char *unit, const UnitChange *c)
{
	Note *n;

	if (strcmp(c->active_state, "failed") == 0) {
		n = note_find(f, unit, true);
		if (n && !n->failed) {
			n->failed = true;
			report(f, n);
		}
	} else if (strcmp(c->active_state, "inactive") == 0) {
		/* nothing to remember, and transient units have ever new names */
		note_drop(f, unit);
	} else if (!c->sub_state || strncmp(c->sub_state, "auto-restart", strlen("auto-restart")) != 0) {
		/* A new life. In auto-restart it is still the old one, whose NRestarts is yet to come. */
		n = note_find(f, unit, false);
		if (n)
			n->failed = false;
	}
}

/* ---- lists ---- */

void unit_failures_list(UnitFailures *f)
{
	for (Note *n = f->first; n; n = n->next)
		n->now = false;
}

void unit_failures_list_unit(UnitFailures *f, const char *unit)
{
	Note *n = note_find(f, unit, true);

	if (n)
		n->now = true;
	if (!n || n->failed)
		return;
	n->failed = true;
	if (f->primed)
		report(f, n);
}

void unit_failures_list_end(UnitFailures *f, bool whole)
{
	/* what others knew to be failed, and is not any more */
	for (Note *n = f->first; n && whole && !f->listed; n = n->next)
		n->failed &= n->now;
	f->primed = f->listed = true;
}

void unit_failures_known(UnitFailures *f, const char *units)
{
	_cleanup_free_ char *copy = strdup(units);
	char *rest = NULL;

	if (!copy || f->listed)
		return;
	for (char *unit = strtok_r(copy, " ", &rest); unit; unit = strtok_r(NULL, " ", &rest)) {
		Note *n = note_find(f, unit, true);

		if (n)
			n->failed = true;
	}
	f->primed = true;
}

char *unit_failures_text(const UnitFailures *f)
{
	char *text = NULL;
	size_t n = 0;
	FILE *out = f->listed ? open_memstream(&text, &n) : NULL;

	if (!out)
		return NULL;
	for (const Note *note = f->first; note; note = note->next)
		if (note->failed)
			fprintf(out, "%s%s", ftell(out) ? " " : "", note->unit);
	if (fclose(out) != 0) {
		free(text);
		return NULL;
	}
	return text;
}
