/* SPDX-License-Identifier: MIT */
#include "daemon/state.h"

#include "daemon/faults.h"
#include "daemon/ledger.h"
#include "systemd/journal.h"

static void state_open_marks(State *s, int fd, u32 n_stored)
{
	bool new = fd < 0;
	int r = bookmarks_new(&s->marks, fd);

	if (r < 0 && !new) {
		log_error("what was written of sessions is not known any more: %s", strerror(-r));
		new = true;
		r = bookmarks_new(&s->marks, -1);
	}
	if (r == 0 && new && n_stored)
		fdstore_remove(&s->store, "marks");
	if (r == 0 && new)
		r = fdstore_put(&s->store, "marks", bookmarks_fd(s->marks));
	if (r < 0) {
		log_warning("how far sessions have written cannot be kept over a restart: %s", strerror(-r));
		s->marks = bookmarks_free(s->marks);
	}
}

int state_new(State **ret, Ledger *ledger, int marks_fd, u32 n_stored, void (*rewrite)(void *userdata), void *userdata)
{
	State *s = calloc(1, sizeof(*s));
	int r = 0;

	if (!s) {
		(void)ledger_free(ledger);
		(void)close_fd(marks_fd);
		return -ENOMEM;
	}
	fdstore_init(&s->store, n_stored);
	s->ledger = ledger;
	s->epoch = s->last_epoch = 1;
	s->rewrite = rewrite;
	s->userdata = userdata;
	if (s->store.on && !ledger) {
		if (n_stored)
			fdstore_remove(&s->store, "state");
		r = ledger_new(&s->ledger);
		if (r == 0)
			r = fdstore_put(&s->store, "state", ledger_fd(s->ledger));
	}
	if (r < 0) {
		log_warning("nothing can be kept over a restart: %s", strerror(-r));
		s->ledger = ledger_free(s->ledger);
	}
	if (s->ledger)
		state_open_marks(s, marks_fd, n_stored);
	else
		(void)close_fd(marks_fd);
	*ret = s;
	return 0;
}

State *state_free(State *s)
{
	if (!s)
		return NULL;
	faults_unwatch(s->ledger);
	s->ledger = ledger_free(s->ledger);
	s->marks = bookmarks_free(s->marks);
	line_clear(&s->line);
	fdstore_deinit(&s->store);
	free(s);
	return NULL;
}

void state_watch_faults(State *s)
{
	if (s && s->ledger)
		faults_watch(s->ledger);
}

void state_healthy(State *s)
{
	if (s && s->ledger)
		ledger_healthy(s->ledger);
}

void state_leave(State *s)
{
	if (s)
		s->store.on = false;
}

/* ---- lines ---- */

bool state_kept(const State *s)
{
	return s && s->ledger && s->store.on && !s->quiet;
}

/* A line that could not be written stays unknown until all is said anew: state_catch_up(). */
static void state_behind(State *s, int error)
{
	if (!s->behind)
		log_error("what changes now is not known after a restart: %s; recording goes on", strerror(-error));
	s->behind = true;
}

bool state_say(State *s)
{
	int r = s->line.failed ? -ENOMEM : ledger_append(s->ledger, s->line.text);

	if (s->rewriting)
		s->spoiled |= r < 0;
	else if (r < 0)
		state_behind(s, r);
	else if (ledger_due(s->ledger))
		state_renew(s);
	return r == 0;
}

void state_renew(State *s)
{
	const u32 epoch = s ? s->epoch : 0;

	if (!state_kept(s) || s->rewriting)
		return;
	s->rewriting = true;
	s->spoiled = false;
	s->epoch = ++s->last_epoch;
	ledger_rewrite_begin(s->ledger);
	s->rewrite(s->userdata);
	if (ledger_rewrite_end(s->ledger, !s->spoiled) < 0) {
		s->epoch = epoch;
	} else {
		if (s->behind)
			log_notice("a restart would find all that is there again");
		s->behind = false;
		ledger_complete(s->ledger, /* running= */ false);
	}
	s->rewriting = false;
}

void state_catch_up(State *s)
{
	if (!s)
		return;
	if (s->behind)
		state_renew(s);
	fdstore_catch_up(&s->store);
}

void state_begin(State *s)
{
	state_renew(s);
	if (state_kept(s) && !s->behind)
		ledger_complete(s->ledger, /* running= */ true);
}

void state_end(State *s)
{
	if (s && s->ledger)
		ledger_note_end(s->ledger);
}

void state_machine(State *s, const Cpus *c, const u8 clock_uuid[16])
{
	if (!state_kept(s))
		return;
	line_begin(&s->line, "machine");
	line_bytes(&s->line, "of", c->cpu_of, c->n_rings * sizeof(c->cpu_of[0]));
	line_bytes(&s->line, "clock_uuid", clock_uuid, 16);
	(void)state_say(s);
}

void state_units(State *s, const char *failed)
{
	if (!state_kept(s))
		return;
	line_begin(&s->line, "units");
	line_text(&s->line, "failed", failed);
	(void)state_say(s);
}
