/* SPDX-License-Identifier: MIT */
/* A range of time of a trace, as a trace. Asks no daemon: traces outlive it, and are copied to other machines. */
#include "dbus/tracerctl.h"

#include <inttypes.h>

#include "daemon/trace/extract.h"
#include "dbus/moment.h"

static int failure_status(const Failure *f)
{
	int status = f->kind == FAILURE_INVALID		     ? STATUS_USAGE
		     : strstr(f->text, strerror(EACCES)) ? STATUS_PERMISSION
							     : STATUS_FAILED;

	return failed(status, "%s", f->text);
}

static int span_failed(const Extract *e, const char *what)
{
	char first[64], last[64];
	u64 begin, end;

	extract_span(e, &begin, &end);
	moment_format(begin, first);
	moment_format(end, last);
	return failed(STATUS_FAILED, "%s; the trace is of %s to %s", what, first, last);
}

static int moment_read(const Extract *e, const char *option, const char *text, u64 fallback, u64 *ret)
{
	u64 begin, end;
	int r;

	*ret = fallback;
	if (!text)
		return STATUS_OK;
	extract_span(e, &begin, &end);
	r = moment_parse(text, begin, end, ret);
	if (r == -ERANGE)
		return failed(STATUS_USAGE, "--%s=%s: there is no such time", option, text);
	if (r < 0)
		return failed(STATUS_USAGE,
			      "--%s=%s: write it like \"2026-11-29 16:01:02.5\", with Z behind it for UTC, \"16:01:02.5\", "
			      "\"+5s\" (after the trace's beginning) or \"-10s\" (before its end)",
			      option, text);
	return STATUS_OK;
}

int verb_extract(const Options *o, int argc, char **argv)
{
	_cleanup_(extract_freep) Extract *e = NULL;
	Failure f = FAILURE_NULL;
	ExtractResult result;
	u64 from, to;
	int r;

	if (extract_new(&e, argv[0], &f) < 0)
		return failure_status(&f);
	r = moment_read(e, "from", o->from, 0, &from);
	if (r == STATUS_OK)
		r = moment_read(e, "to", o->to, UINT64_MAX, &to);
	if (r != STATUS_OK)
		return r;
	if (from > to)
		return span_failed(e, "--from is later than --to");
	if (extract_write(e, from, to, argv[1], &result, &f) < 0)
		return f.kind == FAILURE_NOTHING ? span_failed(e, f.text) : failure_status(&f);
	if (result.n_damaged > 0)
		(void)fprintf(stderr, "tracerctl: %" PRIu32 " streams (%s...) are damaged; what is behind that is missing\n",
			      result.n_damaged, result.damaged);
	if (o->no_legend)
		(void)printf("%s\n", argv[1]);
	else
		(void)printf("%s: %" PRIu32 " traces, %" PRIu32 " streams, %" PRIu64 " packets, %" PRIu64 " bytes\n", argv[1],
			     result.n_traces, result.n_streams, result.n_packets, result.bytes);
	return STATUS_OK;
}
