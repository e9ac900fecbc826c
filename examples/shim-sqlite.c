/* SPDX-License-Identifier: MIT */
/* Makes sqlite3, a program that knows nothing of us, record what it does: a loadable extension that has
 * SQLite tell us of each statement as it begins and ends (sqlite3_trace_v2).
 *
 *     sqlite3 -cmd '.load LIBDIR/tracer/shim-sqlite' shop.db
 *
 * With no session that wants provider "sqlite", a statement costs one load and one branch more. */
#include <sqlite3ext.h>
#include <stdlib.h>

#include <tracer/tracer.h>

SQLITE_EXTENSION_INIT1

/* A statement begins; `sql` has its parameters filled in. */
TRACER_EVENT(sqlite, begin, TRACER_INFO, TRACER_PTR(statement), TRACER_STR(sql))
/* ... has ended, and this connection has changed so many rows since it was opened ... */
TRACER_EVENT(sqlite, end, TRACER_INFO, TRACER_PTR(statement), TRACER_I32(total_changes))
/* ... and gave a row. */
TRACER_EVENT(sqlite, row, TRACER_DEBUG_LINE, TRACER_PTR(statement))
TRACER_EVENT(sqlite, open, TRACER_NOTICE, TRACER_PTR(connection), TRACER_STR(file))
TRACER_EVENT(sqlite, close, TRACER_NOTICE, TRACER_PTR(connection))

static void statement_begin(sqlite3_stmt *s, const char *text)
{
	char *sql;

	/* Putting the parameters in costs an allocation: only for somebody who reads it. */
	if (!trace_enabled_sqlite_begin())
		return;
	/* "--" says that a trigger runs as part of a statement that we know already */
	sql = text && text[0] == '-' && text[1] == '-' ? NULL : sqlite3_expanded_sql(s);
	trace_sqlite_begin(s, sql ? sql : text);
	sqlite3_free(sql);
}

static int on_trace(unsigned what, void *context, void *p, void *x)
{
	(void)context;
	switch (what) {
	case SQLITE_TRACE_STMT:
		statement_begin(p, x);
		break;
	case SQLITE_TRACE_PROFILE:
		/* its own time is in milliseconds; ours, at both ends, is better */
		trace_sqlite_end(p, sqlite3_total_changes(sqlite3_db_handle(p)));
		break;
	case SQLITE_TRACE_ROW:
		trace_sqlite_row(p);
		break;
	case SQLITE_TRACE_CLOSE:
		trace_sqlite_close(p);
		break;
	}
	return 0;
}

/* the name that sqlite3 looks for */
__attribute__((visibility("default"))) int sqlite3_extension_init(sqlite3 *db, char **error,
								  const sqlite3_api_routines *api);

int sqlite3_extension_init(sqlite3 *db, char **error, const sqlite3_api_routines *api)
{
	const char *file;
	int r;

	SQLITE_EXTENSION_INIT2(api);
	(void)error;
	r = sqlite3_trace_v2(db,
			     SQLITE_TRACE_STMT | SQLITE_TRACE_PROFILE | SQLITE_TRACE_ROW | SQLITE_TRACE_CLOSE,
			     on_trace, NULL);
	if (r != SQLITE_OK)
		return r;
	file = sqlite3_db_filename(db, "main");
	trace_sqlite_open(db, file && *file ? file : ":memory:");
	/* The connection has our function now: we must not go before it does. */
	return SQLITE_OK_LOAD_PERMANENTLY;
}
