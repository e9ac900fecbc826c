/* SPDX-License-Identifier: MIT */
/* A live table: what each session records and loses in a second. On a terminal it is drawn over itself; in a
 * pipe it is lines, one per session and turn. */
#include "dbus/tracerctl.h"

#include <inttypes.h>
#include <time.h>

#include "dbus/json.h"
#include "dbus/table.h"

#define CLEAR_LINE  "\033[K\n" /* the rest of the line, so that a redraw does not flicker */
#define CLEAR_BELOW "\033[J"
#define HOME	    "\033[H"

static void wait_until(u64 ns)
{
	struct timespec ts = { .tv_sec = (time_t)(ns / NSEC_PER_SEC), .tv_nsec = (long)(ns % NSEC_PER_SEC) };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
}

static const SessionRow *row_find(const SessionRows *rows, const char *name)
{
	for (size_t i = 0; i < rows->n; i++)
		if (rows->v[i].name && name && strcmp(rows->v[i].name, name) == 0)
			return &rows->v[i];
	return NULL;
}

/* Per second; a counter that went back was cleared and began at zero. */
static double rate(u64 now, u64 before, u64 elapsed_ns)
{
	u64 n = now >= before ? now - before : now;

	return elapsed_ns ? (double)n * (double)NSEC_PER_SEC / (double)elapsed_ns : 0;
}

static const char *rate_human(double r, char ret[16])
{
	if (r >= 1e6)
		(void)snprintf(ret, 16, "%.2fM", r / 1e6);
	else if (r >= 1e4)
		(void)snprintf(ret, 16, "%.1fk", r / 1e3);
	else
		(void)snprintf(ret, 16, "%.0f", r);
	return ret;
}

static int rows_table(Table *t, const SessionRows *rows, const SessionRows *before, u64 elapsed_ns)
{
	char recorded[16], lost[16], written[16], memory[16];

	for (size_t i = 0; i < rows->n; i++) {
		const SessionRow *s = &rows->v[i], *b = row_find(before, s->name);
		int r = 0;

		if (b) {
			(void)rate_human(rate(s->recorded, b->recorded, elapsed_ns), recorded);
			(void)rate_human(rate(session_row_lost(s), session_row_lost(b), elapsed_ns), lost);
			(void)rate_human(rate(s->written, b->written, elapsed_ns), written);
		} else {
			recorded[0] = lost[0] = written[0] = 0;
		}
		/* snapshots are written now and then, which is no rate */
		if (!session_row_writes(s))
			written[0] = 0;
		r |= table_add(t, s->name) | table_add(t, s->state) | table_add(t, session_row_io(s));
		r |= table_add(t, recorded) | table_add(t, lost) | table_add(t, written);
		r |= table_addf(t, "%.0f%%", s->fill * 100);
		r |= table_add(t, size_human(s->memory, memory)) | table_addf(t, "%u", s->producers);
		r |= table_addf(t, "%" PRIu64, s->recorded) | table_addf(t, "%" PRIu64, session_row_lost(s));
		if (r)
			return -ENOMEM;
	}
	return 0;
}

static void rows_json(const Options *o, const SessionRows *rows, const SessionRows *before, u64 elapsed_ns)
{
	Json j = { .out = stdout, .pretty = o->json_pretty };

	json_open(&j, '[');
	for (size_t i = 0; i < rows->n; i++) {
		const SessionRow *s = &rows->v[i], *b = row_find(before, s->name);

		json_open(&j, '{');
		json_key(&j, "name");
		json_string(&j, s->name ? s->name : "");
		json_key(&j, "state");
		json_string(&j, s->state ? s->state : "");
		json_key(&j, "recorded");
		json_unsigned(&j, s->recorded);
		json_key(&j, "lost");
		json_unsigned(&j, session_row_lost(s));
		json_key(&j, "written");
		json_unsigned(&j, s->written);
		if (b) {
			json_key(&j, "recorded_per_second");
			json_unsigned(&j, (u64)rate(s->recorded, b->recorded, elapsed_ns));
			json_key(&j, "lost_per_second");
			json_unsigned(&j, (u64)rate(session_row_lost(s), session_row_lost(b), elapsed_ns));
			json_key(&j, "written_per_second");
			json_unsigned(&j, (u64)rate(s->written, b->written, elapsed_ns));
		}
		json_key(&j, "fill_percent");
		json_unsigned(&j, s->fill > 0 ? (u64)(s->fill * 100) : 0);
		json_key(&j, "memory");
		json_unsigned(&j, s->memory);
		json_key(&j, "strategy");
		json_string(&j, s->strategy ? s->strategy : "");
		json_key(&j, "trouble");
		json_string(&j, s->trouble ? s->trouble : "");
		json_close(&j, '}');
	}
	json_close(&j, ']');
}

static int draw(const Options *o, Table *t, const SessionRows *rows, const SessionRows *before, u64 elapsed_ns,
		bool first)
{
	bool terminal = isatty(STDOUT_FILENO);
	int r;

	if (o->json) {
		rows_json(o, rows, before, elapsed_ns);
		return 0;
	}
	table_clear(t);
	r = rows_table(t, rows, before, elapsed_ns);
	if (r < 0)
		return r;
	if (terminal)
		(void)fputs(first ? HOME CLEAR_BELOW : HOME, stdout);
	table_print(t, stdout, !o->no_legend && (terminal || first), terminal ? CLEAR_LINE : "\n");
	if (!o->no_legend)
		session_rows_trouble(rows, stdout, terminal ? CLEAR_LINE : "\n");
	if (terminal)
		(void)fputs(CLEAR_BELOW, stdout);
	return 0;
}

int verb_watch(const Options *o, int argc, char **argv)
{
	_cleanup_(table_clear) Table t = TABLE("NAME", "STATE", "IO", ">EVENTS/s", ">LOST/s", ">WRITTEN/s",
					       ">FILL", ">MEMORY", ">PROGRAMS", ">RECORDED", ">LOST");
	_cleanup_(session_rows_clear) SessionRows before = { NULL, 0 };
	_cleanup_(bus_closep) sd_bus *bus = NULL;
	u64 taken = 0, next = monotonic_ns();
	int r = client_connect(o, &bus);

	if (r != STATUS_OK)
		return r;
	for (u64 i = 0; o->count == 0 || i < o->count; i++) {
		_cleanup_(session_rows_clear) SessionRows rows = { NULL, 0 };
		_cleanup_(error_freep) sd_bus_error error = SD_BUS_ERROR_NULL;
		u64 now;

		if (i > 0)
			wait_until(next += o->interval_usec * NSEC_PER_USEC);
		r = session_rows_read(bus, &rows, &error);
		if (r < 0)
			return client_failed(o, &error, r);
		now = monotonic_ns();
		r = draw(o, &t, &rows, &before, now - taken, i == 0);
		if (r < 0)
			return client_failed(o, NULL, r);
		if (fflush(stdout) != 0)
			return STATUS_FAILED; /* nobody reads any more */
		taken = now;
		session_rows_clear(&before);
		before = rows;
		rows = (SessionRows){ NULL, 0 };
	}
	return STATUS_OK;
}
